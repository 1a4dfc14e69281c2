def greet():
    print("Hi")


def main():
    print("start")
    greet()
