if a:
    if b:
        one()
    two()
