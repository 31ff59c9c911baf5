package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// TestOutput_EscapesControlCharacters in names, errors and reports for users. Programs get the answer of the
// API unchanged, and logs are as the tasks wrote them.
func TestOutput_EscapesControlCharacters(t *testing.T) {
	const (
		evil    = "x\x1b]0;owned\a\u009b2J\u202ey"
		allocID = "01234567-89ab-cdef-0123-456789abcdef"
	)
	caller := &apitest.Caller{}
	logs := t.TempDir()
	agent := clitest.NewAgent(t.TempDir())
	agent.Logs = func(string, string, string) (string, error) { return logs, nil }
	err := os.WriteFile(filepath.Join(logs, "t.stdout.0"), []byte(evil), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	addr := clitest.Serve(t, caller, agent)
	job := &structs.Job{
		ID:                "j",
		Name:              evil,
		StatusDescription: evil,
	}
	apitest.Answer(caller, structs.JobList,
		structs.JobListResponse{Jobs: []*structs.JobListStub{{
			ID:     evil,
			Name:   evil,
			Status: evil,
		}}})
	apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: job})
	apitest.Answer(caller, structs.JobSummaryGet,
		structs.JobSummaryResponse{JobSummary: &structs.JobSummary{}})
	apitest.Answer(caller, structs.JobAllocations, structs.AllocListResponse{})
	apitest.Answer(caller, structs.JobEvaluations, structs.EvalListResponse{})
	apitest.Answer(caller, structs.CSIVolumeList,
		structs.CSIVolumeListResponse{Volumes: []*structs.CSIVolumeListStub{{
			ID:         "v",
			ExternalID: evil,
			PluginID:   evil,
		}}})
	apitest.Answer(caller, structs.CSIVolumeGet,
		structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{CSIVolume: structs.CSIVolume{
			ID:            "v",
			CSIVolumeSpec: structs.CSIVolumeSpec{ExternalID: evil, Context: map[string]string{evil: evil}},
			CSIVolumeStatus: structs.CSIVolumeStatus{
				LastError: &structs.OperationError{
					Message: evil,
					Code:    evil,
				},
			},
		}}})
	apitest.Answer(caller, structs.AllocGet,
		structs.AllocGetResponse{Alloc: &structs.Allocation{
			ID:        allocID,
			TaskGroup: "g",
			Job: &structs.Job{
				ID: "j",
				TaskGroups: []*structs.TaskGroup{{
					Name:  "g",
					Tasks: []*structs.Task{{Name: "t"}},
				}},
			},
		}})
	apitest.Fail(caller, structs.CSIVolumeDeregister, structs.Errorf(structs.KindInternal, "%s", evil))
	for _, line := range []string{
		"job status",
		"job status j",
		"volume status",
		"volume status v",
		"volume deregister v",
	} {
		_, out, errs := runLine(t, line+" -address "+addr)
		text := out + errs
		control := func(r rune) bool {
			return r != '\n' && (unicode.IsControl(r) || r == '\u202e')
		}
		if strings.ContainsFunc(text, control) {
			t.Errorf("%s writes control characters: %q", line, text)
		}
		if !strings.Contains(text, `x\x1b]0;owned\a\u009b2J\u202ey`) {
			t.Errorf("%s does not show the escapes: %q", line, text)
		}
	}
	var sentence strings.Builder
	(&command.Call{Stdio: command.Stdio{Out: &sentence}}).Printf("%s\n", evil)
	if !strings.HasPrefix(sentence.String(), `x\x1b]0;`) {
		t.Errorf("a sentence is %q", sentence.String())
	}
	template := "{{range .}}{{.Name}}{{end}}"
	_, out, _ := runArgs(t, []string{"job", "status", "-t", template, "-address", addr})
	if !strings.Contains(out, evil) {
		t.Errorf("the output of a template is %q", out)
	}
	_, out, _ = runLine(t, "job status -json -address "+addr)
	if !strings.Contains(out, `x\u001b]0;owned`) {
		t.Errorf("the JSON is %q", out)
	}
	_, out, errs := runLine(t, "alloc logs "+allocID+" t -address "+addr)
	if out != evil {
		t.Errorf("the log is %q: %s", out, errs)
	}
}
