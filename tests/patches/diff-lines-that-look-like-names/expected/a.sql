++ new
x
