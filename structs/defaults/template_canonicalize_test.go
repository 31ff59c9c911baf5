package defaults

import (
	"berth/structs"
	"testing"
	"time"
)

func withTemplate(x *structs.Template, edit func(*structs.Task)) *structs.Job {
	return testJob(func(j *structs.Job) {
		t := j.TaskGroups[0].Tasks[0]
		t.Templates = []*structs.Template{x}
		if edit != nil {
			edit(t)
		}
	})
}

func TestTemplate_HasDefaults(t *testing.T) {
	j := withTemplate(&structs.Template{
		EmbeddedTmpl: "x",
		DestPath:     "local/x",
		ChangeMode:   structs.TemplateSignal,
		ChangeScript: &structs.ChangeScript{Command: "/bin/true"},
	}, nil)
	x := j.TaskGroups[0].Tasks[0].Templates[0]
	if x.ChangeSignal != "SIGHUP" || *x.Splay != 5*time.Second || x.Perms != "0644" ||
		x.LeftDelim != "{{" || x.RightDelim != "}}" || x.ChangeScript.Timeout != 5*time.Second {
		t.Errorf("got %+v", x)
	}
	j = withTemplate(&structs.Template{DestPath: "x", Splay: new(time.Duration(0))}, nil)
	x = j.TaskGroups[0].Tasks[0].Templates[0]
	if x.ChangeMode != structs.TemplateRestart || x.ChangeSignal != "" || *x.Splay != 0 {
		t.Errorf("got %+v", x)
	}
}
