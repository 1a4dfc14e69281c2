value = compute(a)
