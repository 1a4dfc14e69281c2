class A:
    def f(self):
        one()
        three()
        four()
