package cli

import (
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
)

// An empty list is an error if the namespace does not exist.
func TestJobStatus_RefusesANamespaceThatDoesNotExist(t *testing.T) {
	c := &apitest.Caller{}
	apitest.Answer(c, structs.JobList, structs.JobListResponse{})
	apitest.Answer(c, structs.NamespaceList, structs.NamespaceListResponse{
		Namespaces: []*structs.Namespace{{Name: "prod"}},
	})
	addr := serveAPI(t, c, fakeAgent(t.TempDir()))
	for name, want := range map[string]int{"prod": 0, "*": 0, "prd": 1} {
		code, _, errs := runLine(t, "job status -namespace "+name+" -address "+addr)
		if (code != 0) != (want != 0) || want != 0 && !strings.Contains(errs, `there is no namespace "prd"`) {
			t.Errorf("namespace %s: exit code %d, %s", name, code, errs)
		}
	}
}
