class A:
    def run(self):
        return 2


class B:
    def run(self):
        return 1
