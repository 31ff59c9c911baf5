package job_test

import (
	"path/filepath"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

func TestJobPlan_ShowsTheVolumesThatTheJobAsksFor(t *testing.T) {
	c := &apitest.Caller{}
	apitest.Answer(c, structs.JobPlan, structs.JobPlanResponse{
		Annotations: &structs.PlanAnnotations{Volumes: []*structs.VolumeChange{
			{ID: "j.g.data[0]", Class: "fast", Bytes: 3 << 30, Change: structs.VolumeGrow},
			{ID: "j.g.data[1]", Class: "fast", Bytes: 3 << 30, Change: structs.VolumeCreate},
		}},
	})
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
	_, out, errs := runLine(t, "job plan "+file+" -address "+addr)
	fields := strings.Join(strings.Fields(out), " ")
	want := "Volumes ID Change Class Size j.g.data[0] grow fast 3.0 GiB j.g.data[1] create fast 3.0 GiB"
	if !strings.Contains(fields, want) {
		t.Errorf("got %s%s, want %q", out, errs, want)
	}
}
