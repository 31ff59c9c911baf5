package structs

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/codec"
)

func withTemplate(x *Template, edit func(*Task)) *Job {
	return testJob(func(j *Job) {
		t := j.TaskGroups[0].Tasks[0]
		t.Templates = []*Template{x}
		if edit != nil {
			edit(t)
		}
	})
}

func TestTemplate_HasDefaults(t *testing.T) {
	j := withTemplate(&Template{
		EmbeddedTmpl: "x",
		DestPath:     "local/x",
		ChangeMode:   TemplateSignal,
		ChangeScript: &ChangeScript{Command: "/bin/true"},
	}, nil)
	x := j.TaskGroups[0].Tasks[0].Templates[0]
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
	if x.ChangeSignal != "SIGHUP" || *x.Splay != 5*time.Second || x.Perms != "0644" ||
		x.LeftDelim != "{{" || x.RightDelim != "}}" || x.ChangeScript.Timeout != 5*time.Second {
		t.Errorf("got %+v", x)
	}
	j = withTemplate(&Template{DestPath: "x", Splay: new(time.Duration(0))}, nil)
	x = j.TaskGroups[0].Tasks[0].Templates[0]
	if x.ChangeMode != TemplateRestart || x.ChangeSignal != "" || *x.Splay != 0 {
		t.Errorf("got %+v", x)
	}
}

func TestTemplate_WaitHasBounds(t *testing.T) {
	for want, x := range map[[2]time.Duration]*TemplateWait{
		{5 * time.Second, 4 * time.Minute}: nil,
		{0, 0}:                             {},
		{2 * time.Second, 8 * time.Second}: {Min: new(2 * time.Second)},
		{0, time.Second}:                   {Max: new(time.Second)},
		{MaxTaskWait, MaxTaskWait}:         {Min: new(MaxTaskWait)},
	} {
		least, most := (&Template{Wait: x}).WaitBounds()
		if least != want[0] || most != want[1] {
			t.Errorf("%+v: got %s and %s, want %s", x, least, most, want)
		}
	}
}

func TestTemplate_Validate(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*Template)
	}{
		{"", func(*Template) {}},
		{"", func(x *Template) { x.DestPath = "${NOMAD_SECRETS_DIR}/x" }},
		{"", func(x *Template) { x.DestPath = "/secrets/x" }},
		{"", func(x *Template) { x.DestPath = "../alloc/x" }},
		{"", func(x *Template) { x.Perms = "777" }},
		{"", func(x *Template) { x.Uid, x.Gid = new(-1), new(1000) }},
		{"data or source is required", func(x *Template) { x.EmbeddedTmpl = "" }},
		{"data and source exclude each other", func(x *Template) { x.SourcePath = "local/y" }},
		{"destination is required", func(x *Template) { x.DestPath = "" }},
		{"leads out of the task's directory", func(x *Template) { x.DestPath = "../other/local/x" }},
		{"leads out of the task's directory", func(x *Template) { x.DestPath = "local/../../x" }},
		{"leads out of the task's directory", func(x *Template) { x.EmbeddedTmpl, x.SourcePath = "", "../x" }},
		{"is a directory", func(x *Template) { x.DestPath = "local/" }},
		{"without NUL", func(x *Template) { x.DestPath = "local/\x00" }},
		{"bytes; at most", func(x *Template) { x.DestPath = "local/" + strings.Repeat("x", MaxText) }},
		{`destination "./dev/x": a task of the driver exec has a /dev of its own`,
			func(x *Template) { x.DestPath = "./dev/x" }},
		{"", func(x *Template) { x.DestPath = "x" }},
		{"after a restart only", func(x *Template) { x.DestPath, x.ChangeMode = "./x", TemplateSignal }},
		{"", func(x *Template) {
			x.DestPath = "etc/x"
			x.ChangeMode = TemplateSignal
			x.ChangeSignal = "SIGHUP"
		}},
		{"change_mode", func(x *Template) { x.ChangeMode = "reload" }},
		{`change_signal "SIGNO" is not a signal`, func(x *Template) { x.ChangeSignal = "SIGNO" }},
		{"use change_mode restart", func(x *Template) { x.ChangeMode, x.Envvars = TemplateSignal, true }},
		{"needs a change_script", func(x *Template) { x.ChangeMode = TemplateScript }},
		{"command is required", func(x *Template) { x.ChangeScript = &ChangeScript{} }},
		{"without NUL", func(x *Template) {
			x.ChangeScript = &ChangeScript{Command: "x", Args: []string{"\x00"}}
		}},
		{"arguments; at most", func(x *Template) {
			x.ChangeScript = &ChangeScript{Command: "x", Args: make([]string, MaxExecArgs)}
		}},
		{"the command has", func(x *Template) {
			x.ChangeScript = &ChangeScript{Command: "x", Args: []string{strings.Repeat("x", MaxExecBytes)}}
		}},
		{"timeout must not be negative", func(x *Template) {
			x.ChangeScript = &ChangeScript{Command: "x", Timeout: -1}
		}},
		{"", func(x *Template) { x.Wait = &TemplateWait{} }},
		{"", func(x *Template) { x.Wait = &TemplateWait{Min: new(MaxTaskWait)} }},
		{"wait: min must not be negative", func(x *Template) { x.Wait = &TemplateWait{Min: new(time.Duration(-1))} }},
		{"wait: max", func(x *Template) { x.Wait = &TemplateWait{Max: new(MaxTaskWait + 1)} }},
		{"wait: min 3s is above max 2s", func(x *Template) {
			x.Wait = &TemplateWait{new(3 * time.Second), new(2 * time.Second)}
		}},
		{"splay must not be negative", func(x *Template) { x.Splay = new(time.Duration(-1)) }},
		{"perms", func(x *Template) { x.Perms = "4755" }},
		{"perms", func(x *Template) { x.Perms = "rw" }},
		{"uid -2 must be at least -1", func(x *Template) { x.Uid = new(-2) }},
		{"gid 4294967296 must be at most", func(x *Template) { x.Gid = new(1 << 32) }},
		{"left_delimiter has", func(x *Template) { x.LeftDelim = strings.Repeat("[", MaxDelimiter+1) }},
	} {
		x := &Template{EmbeddedTmpl: "{{ env `X` }}", DestPath: "local/x"}
		c.edit(x)
		err := withTemplate(x, nil).Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

func TestTemplates_OfATaskAreChecked(t *testing.T) {
	one := Template{EmbeddedTmpl: "x", DestPath: "local/x"}
	same := Template{EmbeddedTmpl: "y", DestPath: "./local/x"}
	for want, list := range map[string][]*Template{
		`template 2: destination "./local/x" is that of another`: {&one, &same},
		"template 2 is null": {&one, nil},
		"65 templates; at most 64 are allowed": func() (many []*Template) {
			for range MaxTemplates + 1 {
				many = append(many, new(one))
			}
			return many
		}(),
	} {
		err := withTemplate(nil, func(t *Task) { t.Templates = list }).Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestTemplate_MayBeAnywhereInTheDirectory(t *testing.T) {
	for driver, dest := range map[string]string{driverRawExec: "dev/x", driverExec: "usr/local/bin/x"} {
		j := withTemplate(&Template{EmbeddedTmpl: "x", DestPath: dest}, func(t *Task) {
			t.Driver = driver
			t.VolumeMounts = nil
		})
		if err := j.Validate(); err != nil {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

func TestParseText_RejectsCallsOfUnknownFunctions(t *testing.T) {
	for text, want := range map[string]string{
		`{{ nodes }}`:                                         "the function nodes is rejected: of Consul, templates read services and keys alone",
		`{{ with secret "a" }}{{ end }}`:                      "Vault",
		`{{ range nomadService "a" }}{{ end }}`:               "",
		`{{ (nomadVar "a").x }}`:                              "read the value from a file of a host volume, or the template from Consul with key",
		`{{ if eq (plugin "a") "" }}{{ end }}`:                "runs no programs",
		`{{ "a" | writeToFile "b" }}`:                         "writes no file but its destination",
		`{{ sprig_env "HOME" }}`:                              "the function sprig_env is rejected: it reads the environment of the agent; use env",
		`{{ sprig_genPrivateKey "rsa" }}`:                     "makes and uses no keys",
		`{{ sprig_now }}`:                                     "reads the clock",
		`{{ sprig_uuidv4 }}`:                                  "another value each time",
		`{{ sprig_none }}`:                                    "sprig has no such function",
		`{{ sprig_upper "x" | sprig_quote }}`:                 "",
		`{{ define "a" }}{{ sockaddr "x" }}{{ end }}`:         "",
		`{{ if false }}{{ else }}{{ spew_dump 1 }}{{ end }}`:  "use toJSON",
		`{{ range $x := split (nodes) "a" }}{{ end }}`:        "Consul",
		`{{ template "a" (caLeaf "b") }}`:                     "Consul",
		`{{ berthLeave }}`:                                    "berth does not know it; it has: add",
		`{{ `:                                                 "unclosed action",
		"{{ if }}x{{ end }}":                                  "missing value for if",
		strings.Repeat("x", MaxTemplateText+1):                "the text has 262145 bytes; at most 262144 are allowed",
		`{{ range loop 3 }}{{ . | add 1 | print }}{{ end }}`:  "",
		`{{ with $x := env "A" }}{{ printf "%s" $x }}{{end}}`: "",
	} {
		_, err := (&Template{LeftDelim: "{{", RightDelim: "}}"}).ParseText(text)
		if want == "" && err != nil || want != "" && (!IsKind(err, KindInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: want %q, got %v", text, want, err)
		}
	}
	_, err := (&Template{LeftDelim: "[[", RightDelim: "]]"}).ParseText(`{{ node "a" }} [[ env "X" ]]`)
	if err != nil {
		t.Error(err)
	}
}

// TestTemplate_NamesEachRejectedFunction lists the functions by the places of their first calls.
func TestTemplate_NamesEachRejectedFunction(t *testing.T) {
	x := &Template{
		EmbeddedTmpl: "{{ define `a` }}{{ plugin `x` }}{{ end }}{{ node `k` }}{{ env `A` }}{{ node `l` }}{{ secret `s` }}",
		DestPath:     "local/x",
		LeftDelim:    "{{",
		RightDelim:   "}}",
		ChangeMode:   TemplateRestart,
		Perms:        "644",
	}
	f := newFieldErrors("")
	x.validate(f.at("template 1"))
	var named []string
	for _, line := range f.found.Lines() {
		text, _, _ := strings.Cut(line, " is rejected: ")
		named = append(named, text)
	}
	want := []string{
		"template 1: data: the function plugin",
		"template 1: data: the function node",
		"template 1: data: the function secret",
	}
	if !slices.Equal(named, want) {
		t.Errorf("got %q\nwant %q", named, want)
	}
}

// No splay and the user 0 are values of their own, also after a row was written and read.
func TestTemplate_KeepsZerosOverTheWire(t *testing.T) {
	in := &Template{Splay: new(time.Duration(0)), Uid: new(0), Gid: new(0)}
	b, err := codec.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &Template{}
	err = codec.Decode(b, out)
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v, %v", out, err)
	}
	b, err = codec.Encode(&Template{DestPath: "x"})
	if want := "\x81\xa8DestPath\xa1x"; err != nil || string(b) != want {
		t.Errorf("got %q, %v; want %q", b, err, want)
	}
}

func TestTemplateFunctions_AreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "with the functions of the dialect:")
	section, _, _ = strings.Cut(section, "\n\n`env` returns")
	checkDocumented(t, section, TemplateFunctions())
	_, section, _ = strings.Cut(string(page), "those of the library sprig:")
	section, _, _ = strings.Cut(section, "\n\nThe others")
	checkDocumented(t, section, SprigFunctions())
}

// checkDocumented compares the names in a part of a page with those of functions.
func checkDocumented(t *testing.T, section string, known []string) {
	t.Helper()
	var documented []string
	for _, m := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("the page has the functions\n%v, the code\n%v", documented, known)
	}
}
