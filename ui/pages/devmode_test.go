package pages

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inDevMode is set in the process of the test that draws.
const inDevMode = "BERTH_TEST_IN_DEV_MODE"

// TestPages_HaveTheTextsOfTheBinary also where the environment of the agent asks templ for those of files.
func TestPages_HaveTheTextsOfTheBinary(t *testing.T) {
	if os.Getenv(inDevMode) != "" {
		err := Confirm(Confirmation{}).Render(t.Context(), os.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		return
	}

	var want bytes.Buffer
	err := Confirm(Confirmation{}).Render(t.Context(), &want)
	if err != nil || want.Len() == 0 {
		t.Fatalf("got %q, %v", want.String(), err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inDevMode+"=1", "TEMPL_DEV_MODE=true", "TEMPL_DEV_MODE_ROOT="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want.String()) {
		t.Errorf("in the mode for development the page is\n%s\n%v; want\n%s", out, err, want.String())
	}
}
