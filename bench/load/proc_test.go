package main

import "testing"

func TestProc_CountsCPUTime(t *testing.T) {
	before, _ := scheduled("self")
	for ran := before; ran <= before; ran, _ = scheduled("self") { // reading it takes some, too
	}
	if ran, waited := scheduled("no such process"); ran != 0 || waited != 0 {
		t.Errorf("a process that is none ran for %s and waited for %s", ran, waited)
	}
}
