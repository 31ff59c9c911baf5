package kit

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
	ExitPlain(m.Run())
}

func TestProgram_HasTheTestMainAndNoRaceDetector(t *testing.T) {
	program := PlainProgram()
	if again := PlainProgram(); again != program {
		t.Errorf("the second call answers %s, the first %s", again, program)
	}
	out, err := exec.Command(program, "say").CombinedOutput()
	if err != nil || string(out) != "raced: false" {
		t.Errorf("got %q, %v", out, err)
	}
	RemovePlain()
	if _, err := os.Stat(program); raced != os.IsNotExist(err) {
		t.Errorf("after its removal: %v", err)
	}
}
