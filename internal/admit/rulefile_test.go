package admit

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs/admission"
)

const inHCL = `
rule "few" {
  description = "keeps it small"
  on          = "job"
  mode        = "warn"
  namespaces  = ["team-*"]
  expression  = <<-EOT
    job.TaskGroups.all(g, g.Count <= 3)
  EOT
  message     = "at most 3"
}

rule "off" {
  on         = "volume"
  mode       = "deny"
  expression = "true"
  message    = "no"
}
`

const inJSON = `{"rule": {
  "few": {"description": "keeps it small", "on": "job", "mode": "warn", "namespaces": ["team-*"],
    "expression": "job.TaskGroups.all(g, g.Count <= 3)\n", "message": "at most 3"},
  "off": {"on": "volume", "mode": "deny", "expression": "true", "message": "no"}}}`

func TestRead_ReadsBothForms(t *testing.T) {
	want := []*admission.Rule{
		{
			Name:        "few",
			Description: "keeps it small",
			On:          admission.OnJob,
			Mode:        admission.ModeWarn,
			Namespaces:  []string{"team-*"},
			Expression:  "job.TaskGroups.all(g, g.Count <= 3)\n",
			Message:     "at most 3",
		},
		{
			Name:       "off",
			On:         admission.OnVolume,
			Mode:       admission.ModeDeny,
			Expression: "true",
			Message:    "no",
		},
	}
	for name, text := range map[string]string{"rules.hcl": inHCL, "rules.json": inJSON} {
		got, err := ReadRules(name, []byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v and %v", name, got, err)
		}
	}
}

func TestRead_TellsThePlacesOfFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "rules.hcl has 0 rules",
		`rule "x" { on = "job" }`:     "mode",
		"rule \"x\" {\n  when = 1\n}": "rules.hcl:2",
		strings.Repeat("rule \"x\" {\n  on = \"job\"\n  mode = \"deny\"\n  expression = \"true\"\n  message = \"m\"\n}\n",
			admission.MaxRules+1): "129 rules",
	} {
		_, err := ReadRules("rules.hcl", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: got %v, want %q", text, err, want)
		}
	}
}

// FuzzRead: no file makes the reader panic, and each rule that it returns is whole.
func FuzzRead(f *testing.F) {
	f.Add("rules.hcl", inHCL)
	f.Add("rules.json", inJSON)
	f.Fuzz(func(t *testing.T, name, text string) {
		rules, err := ReadRules(name, []byte(text))
		if err == nil && len(rules) == 0 {
			t.Error("no rule and no error")
		}
	})
}
