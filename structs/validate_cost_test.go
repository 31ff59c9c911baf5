package structs

import "testing"

// Each registration checks its job. If each check first makes the arguments of its text, this takes 361
// allocations of memory.
func TestJobFaults_OfAValidJobMakesNoTexts(t *testing.T) {
	j := testJob()
	if err := j.Faults().Err(); err != nil {
		t.Fatal(err)
	}
	made := testing.AllocsPerRun(10, func() { j.Faults() })
	if made > 220 {
		t.Errorf("the check of a job made %v allocations, want at most 220", made)
	}
}
