package cli

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
)

// TestOutput_EscapesControlCharacters in names, errors and reports for users. Programs get the answer of the
// API unchanged, and logs are as the tasks wrote them.
func TestOutput_EscapesControlCharacters(t *testing.T) {
	const evil = "x\x1b]0;owned\a\u009b2J\u202ey"
	caller, logs := &apitest.Caller{}, t.TempDir()
	agent := fakeAgent(t.TempDir())
	agent.Logs = func(string, string, string) (string, error) { return logs, nil }
	err := os.WriteFile(filepath.Join(logs, "t.stdout.0"), []byte(evil), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Caller: caller,
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
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
			ID:         "v",
			ExternalID: evil,
			LastError: &structs.OperationError{
				Message: evil,
				Code:    evil,
			},
			Context: map[string]string{evil: evil},
		}}})
	apitest.Answer(caller, structs.AllocGet,
		structs.AllocGetResponse{Alloc: &structs.Allocation{
			ID:        "01234567-89ab-cdef-0123-456789abcdef",
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
	for _, line := range []string{"job status", "job status j", "volume status", "volume status v",
		"volume deregister v"} {
		_, out, errs := runLine(t, append(strings.Fields(line), "-address", srv.URL))
		text := out + errs
		if strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' &&
				(unicode.IsControl(r) || r == '\u202e')
		}) {
			t.Errorf("%s shows %q", line, text)
		}
		if !strings.Contains(text, `x\x1b]0;owned\a\u009b2J\u202ey`) {
			t.Errorf("%s does not show the escapes: %q", line, text)
		}
	}
	var sentence strings.Builder
	(&Call{Stdio: Stdio{Out: &sentence}}).Printf("%s\n", evil)
	if !strings.HasPrefix(sentence.String(), `x\x1b]0;`) {
		t.Errorf("a sentence shows %q", sentence.String())
	}
	template := "{{range .}}{{.Name}}{{end}}"
	_, out, _ := runLine(t, []string{"job", "status", "-t", template, "-address", srv.URL})
	if !strings.Contains(out, evil) {
		t.Errorf("a template gives programs %q", out)
	}
	if _, out, _ := runLine(t, []string{"job", "status", "-json", "-address", srv.URL}); !strings.Contains(out,
		`x\u001b]0;owned`) {
		t.Errorf("JSON is %q", out)
	}
	if _, out, errs := runLine(t, []string{"alloc", "logs", "01234567-89ab-cdef-0123-456789abcdef", "t",
		"-address", srv.URL}); out != evil {
		t.Errorf("logs are %q %s", out, errs)
	}
}
