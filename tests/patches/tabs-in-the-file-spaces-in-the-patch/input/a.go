func f() {
	if x {
		one()
	}
}
