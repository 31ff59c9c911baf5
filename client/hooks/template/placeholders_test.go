package template

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
	"berth/test/jobtext"
)

// TestTemplates_ReplacePlaceholders renders a template from a file, and runs its script after a change.
func TestTemplates_ReplacePlaceholders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := jobtext.Fill(&structs.ChangeScript{Timeout: time.Second})
		fx := newFixture(t, &structs.Template{
			SourcePath:   "local/of-" + jobtext.Placeholder,
			DestPath:     "local/to-" + jobtext.Placeholder,
			ChangeMode:   structs.TemplateScript,
			ChangeScript: script,
			Splay:        new(time.Duration(0)),
		})
		fx.MustWrite("web/local/of-"+jobtext.Value, `{{ file "local/in" }}`)
		acts := fx.change().done()
		text, err := os.ReadFile(fx.Path("web/local/to-" + jobtext.Value))
		replaced := err == nil && string(text) == "two"
		ran := ""
		if len(acts) > 0 {
			ran = acts[0]
		}
		jobtext.Check(t, "client/hooks/template", map[string]bool{
			"Template.SourcePath":  replaced,
			"Template.DestPath":    replaced,
			"ChangeScript.Command": ran == `run ["web" "web"]`,
			"ChangeScript.Args":    ran == `run ["web" "web"]`,
		})
	})
}
