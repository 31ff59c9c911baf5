package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestTemplate_NamesTheFault(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*structs.Template)
	}{
		{"", func(*structs.Template) {}},
		{"", func(x *structs.Template) { x.DestPath = "${NOMAD_SECRETS_DIR}/x" }},
		{"", func(x *structs.Template) { x.DestPath = "/secrets/x" }},
		{"", func(x *structs.Template) { x.DestPath = "../alloc/x" }},
		{"", func(x *structs.Template) { x.Perms = "777" }},
		{"", func(x *structs.Template) { x.Uid, x.Gid = new(-1), new(1000) }},
		{"data or source is required", func(x *structs.Template) { x.EmbeddedTmpl = "" }},
		{"data and source exclude each other", func(x *structs.Template) { x.SourcePath = "local/y" }},
		{"destination is required", func(x *structs.Template) { x.DestPath = "" }},
		{"leads out of the task's directory", func(x *structs.Template) { x.DestPath = "../other/local/x" }},
		{"leads out of the task's directory", func(x *structs.Template) { x.DestPath = "local/../../x" }},
		{"leads out of the task's directory", func(x *structs.Template) { x.EmbeddedTmpl, x.SourcePath = "", "../x" }},
		{"is a directory", func(x *structs.Template) { x.DestPath = "local/" }},
		{"without NUL", func(x *structs.Template) { x.DestPath = "local/\x00" }},
		{"bytes; at most", func(x *structs.Template) { x.DestPath = "local/" + strings.Repeat("x", structs.MaxText) }},
		{`destination "./dev/x": a task of the driver exec has a /dev of its own`,
			func(x *structs.Template) { x.DestPath = "./dev/x" }},
		{"", func(x *structs.Template) { x.DestPath = "x" }},
		{"after a restart only", func(x *structs.Template) { x.DestPath, x.ChangeMode = "./x", structs.TemplateSignal }},
		{"", func(x *structs.Template) {
			x.DestPath = "etc/x"
			x.ChangeMode = structs.TemplateSignal
			x.ChangeSignal = "SIGHUP"
		}},
		{"change_mode", func(x *structs.Template) { x.ChangeMode = "reload" }},
		{`change_signal "SIGNO" is not a signal`, func(x *structs.Template) { x.ChangeSignal = "SIGNO" }},
		{"use change_mode restart", func(x *structs.Template) { x.ChangeMode, x.Envvars = structs.TemplateSignal, true }},
		{"needs a change_script", func(x *structs.Template) { x.ChangeMode = structs.TemplateScript }},
		{"command is required", func(x *structs.Template) { x.ChangeScript = &structs.ChangeScript{} }},
		{"without NUL", func(x *structs.Template) {
			x.ChangeScript = &structs.ChangeScript{Command: "x", Args: []string{"\x00"}}
		}},
		{"arguments; at most", func(x *structs.Template) {
			x.ChangeScript = &structs.ChangeScript{Command: "x", Args: make([]string, structs.MaxExecArgs)}
		}},
		{"the command has", func(x *structs.Template) {
			x.ChangeScript = &structs.ChangeScript{Command: "x",
				Args: []string{strings.Repeat("x", structs.MaxExecBytes)}}
		}},
		{"timeout must not be negative", func(x *structs.Template) {
			x.ChangeScript = &structs.ChangeScript{Command: "x", Timeout: -1}
		}},
		{"", func(x *structs.Template) { x.Wait = &structs.TemplateWait{} }},
		{"", func(x *structs.Template) { x.Wait = &structs.TemplateWait{Min: new(structs.MaxTaskWait)} }},
		{"wait: min must not be negative", func(x *structs.Template) { x.Wait = &structs.TemplateWait{Min: new(time.Duration(-1))} }},
		{"wait: max", func(x *structs.Template) { x.Wait = &structs.TemplateWait{Max: new(structs.MaxTaskWait + 1)} }},
		{"wait: min 3s is above max 2s", func(x *structs.Template) {
			x.Wait = &structs.TemplateWait{Min: new(3 * time.Second), Max: new(2 * time.Second)}
		}},
		{"splay must not be negative", func(x *structs.Template) { x.Splay = new(time.Duration(-1)) }},
		{"perms", func(x *structs.Template) { x.Perms = "4755" }},
		{"perms", func(x *structs.Template) { x.Perms = "rw" }},
		{"uid -2 must be at least -1", func(x *structs.Template) { x.Uid = new(-2) }},
		{"gid 4294967296 must be at most", func(x *structs.Template) { x.Gid = new(1 << 32) }},
		{"left_delimiter has", func(x *structs.Template) { x.LeftDelim = strings.Repeat("[", structs.MaxDelimiter+1) }},
	} {
		x := &structs.Template{EmbeddedTmpl: "{{ env `X` }}", DestPath: "local/x"}
		c.edit(x)
		err := Job(withTemplate(x, nil))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

func TestTemplates_OfATaskAreChecked(t *testing.T) {
	one := structs.Template{EmbeddedTmpl: "x", DestPath: "local/x"}
	same := structs.Template{EmbeddedTmpl: "y", DestPath: "./local/x"}
	for want, list := range map[string][]*structs.Template{
		`template 2: destination "./local/x" is that of another`: {&one, &same},
		"template 2 is null": {&one, nil},
		"65 templates; at most 64 are allowed": func() (many []*structs.Template) {
			for range structs.MaxTemplates + 1 {
				many = append(many, new(one))
			}
			return many
		}(),
	} {
		err := Job(withTemplate(nil, func(t *structs.Task) { t.Templates = list }))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestTemplate_MayBeAnywhereInTheDirectory(t *testing.T) {
	for driver, dest := range map[string]string{driverRawExec: "dev/x", "exec": "usr/local/bin/x"} {
		j := withTemplate(&structs.Template{EmbeddedTmpl: "x", DestPath: dest}, func(t *structs.Task) {
			t.Driver = driver
			t.VolumeMounts = nil
		})
		if err := Job(j); err != nil {
			t.Errorf("%s: %v", driver, err)
		}
	}
}
