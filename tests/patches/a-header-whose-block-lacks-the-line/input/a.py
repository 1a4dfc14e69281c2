def a():
    go()


def b():
    stop()


def c():
    go()
