package plaintwin

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "say" {
		fmt.Print("raced: ", raced)
		return
	}
	Exit(m.Run())
}

func TestProgram_HasTheTestMainAndNoRaceDetector(t *testing.T) {
	program := Program()
	if again := Program(); again != program {
		t.Errorf("the second call answers %s, the first %s", again, program)
	}
	out, err := exec.Command(program, "say").CombinedOutput()
	if err != nil || string(out) != "raced: false" {
		t.Errorf("got %q, %v", out, err)
	}
	Remove()
	if _, err := os.Stat(program); raced != os.IsNotExist(err) {
		t.Errorf("after its removal: %v", err)
	}
}
