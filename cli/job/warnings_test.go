package job_test

import (
	"path/filepath"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

// The servers accept a job whose driver no node has. The command that registers it shows their warning with
// its place in the file, as job validate does.
func TestJobRun_ShowsTheWarningsOfTheServers(t *testing.T) {
	const warning = `job "j": group "g": task "t": driver "vn" is on no node that is up`
	c := &apitest.Caller{}
	apitest.Answer(c, structs.JobRegister, structs.JobRegisterResponse{Warnings: warning})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	file := filepath.Join(t.TempDir(), "j.hcl")
	clitest.WriteFile(t, file, []byte(`
job "j" {
  group "g" {
    task "t" {
      driver = "vn"
    }
  }
}
`))
	code, _, errs := runLine(t, "job run -detach "+file+" -address "+addr)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"Warning: " + warning, file + " line 5:"} {
		if !strings.Contains(errs, want) {
			t.Errorf("got %s, want %q", errs, want)
		}
	}
}
