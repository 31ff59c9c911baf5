package nomad

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestMigrate_WarnsOfPoliciesThatGiveLess: some rights of a shorthand of the dialect are rights of their own.
func TestMigrate_WarnsOfPoliciesThatGiveLess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule string
		want []string // in the notes
	}{
		{`policy = "read"`, nil},
		{`policy = "deny"`, nil},
		{`capabilities = ["submit-job", "deny"]`, nil},
		{"policy = \"deny\"\ncapabilities = [\"submit-job\"]", nil},
		{`policy = "write"`, []string{"submit-raw-exec and submit-privileged", "csi-force-volume"}},
		{`capabilities = ["submit-job", "submit-raw-exec"]`, []string{"add submit-privileged to"}},
		{`capabilities = ["csi-write-volume"]`, []string{"add csi-force-volume to"}},
		{"policy = \"write\"\n" +
			`capabilities = ["submit-raw-exec", "submit-privileged", "csi-force-volume"]`, nil},
	} {
		rules, err := json.Marshal(fmt.Sprintf("namespace \"team\" {\n%s\n}\n", c.rule))
		if err != nil {
			t.Fatal(err)
		}
		items, _ := mustMigrate(t, fake{
			"/v1/jobs":           `[]`,
			"/v1/acl/policies":   `[{"Name": "dev"}]`,
			"/v1/acl/policy/dev": `{"Rules": ` + string(rules) + `}`,
		}, false)
		notes := items["dev"].Notes
		if len(notes) != len(c.want) {
			t.Errorf("%s: the notes are %q, want %d", c.rule, notes, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(notes[i], want) {
				t.Errorf("%s: note %d is %q, want %q in it", c.rule, i, notes[i], want)
			}
		}
	}
}
