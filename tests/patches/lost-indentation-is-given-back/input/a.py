class A:
    def f(self):
        one()
        two()
