func f() {
	if x {
		two()
		three()
	}
}
