package jobspec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// metaFile is a job file whose meta has the given arguments, after other blocks.
func metaFile(before, meta string) []byte {
	return []byte(before + "\njob \"j\" {\n  meta {\n" + meta + "\n  }\n}\n")
}

func TestReadJob_LaterInputsOverrideEarlierOnes(t *testing.T) {
	src := metaFile(`variable "x" { default = "default" }`, "x = var.x")
	in := Inputs{}
	for _, step := range []struct {
		add  func()
		want string
	}{
		{func() {}, "default"},
		{func() { in.Env = append(in.Env, "NOMAD_VAR_x=nomad", "NOMAD_VAR_other=1") }, "nomad"},
		{func() { in.Env = append([]string{"BERTH_VAR_x=berth"}, in.Env...) }, "berth"},
		{func() { in.Files = append(in.Files, VarFile{Name: "a.hcl", Source: []byte(`x = "a"`)}) }, "a"},
		{func() { in.Files = append(in.Files, VarFile{Name: "b.json", Source: []byte(`{"x": "b"}`)}) }, "b"},
		{func() { in.Vars = append(in.Vars, "x=first") }, "first"},
		{func() { in.Vars = append(in.Vars, "x=a = [b]") }, "a = [b]"},
	} {
		step.add()
		f, err := ReadJob("j.hcl", src, &in)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Job.Meta["x"]; got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

const typed = `
variable "n" { type = number }
variable "on" {
  type    = bool
  default = false
}
variable "list" { type = list(string) }
variable "o" {
  type = object({ a = string, b = optional(number, 7) })
}
variable "free" { default = [1] }
`

func TestReadJob_ConvertsInputsToTheirTypes(t *testing.T) {
	src := metaFile(typed, `v = jsonencode([var.n, var.on, var.list, var.o, var.free])`)
	f, err := ReadJob("j.hcl", src, &Inputs{
		Env:  []string{"BERTH_VAR_on=true", "NOMAD_VAR_list=[\"a\", \"b\"]"},
		Vars: []string{"n=3", `o={ a = "x" }`, `free={ k = "v" }`},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[3,true,["a","b"],{"a":"x","b":7},{"k":"v"}]`
	if got := f.Job.Meta["v"]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReadJob_RejectsInputsWithTheirPlace(t *testing.T) {
	const validated = `
variable "port" {
  type = number
  validation {
    condition     = var.port > 1024
    error_message = "The port must be above 1024."
  }
}`
	for _, c := range []struct {
		before string
		in     Inputs
		want   string
	}{
		{typed, Inputs{Vars: []string{"n=x", "list=[1]", `o={ a = "x" }`}},
			`-var n:1,1: the value of variable "n" is not number: a number is required`},
		{typed, Inputs{Vars: []string{"n=1", "list=[", `o={ a = "x" }`}}, "-var list:"},
		{typed, Inputs{Vars: []string{"n=1", "list=[\"a\"]\nx = 1", `o={ a = "x" }`}},
			`-var list:1,1: the value is not one expression`},
		{typed, Inputs{Vars: []string{"n"}}, `-var:1,1: "n" is not a setting; expected -var name=value`},
		{typed, Inputs{Vars: []string{"lost=1"}}, `-var:1,1: the job file has no variable "lost"; did you mean list?`},
		{typed, Inputs{Files: []VarFile{{Name: "v.hcl", Source: []byte("n = 1\nlsit = []\n")}}},
			`v.hcl:2,1: the job file has no variable "lsit"; did you mean list?`},
		{typed, Inputs{Files: []VarFile{{Name: "v.hcl", Source: []byte("n = upper(\"x\")\n")}}}, "v.hcl:1,5: "},
		{typed, Inputs{Files: []VarFile{{Name: "v.hcl", Source: []byte("n = {\n")}}}, "v.hcl:"},
		{typed, Inputs{}, `j.hcl:2,1: variable "n" has no value`},
		{validated, Inputs{Vars: []string{"port=80"}},
			`j.hcl:5,21: the value of variable "port" is not valid: The port must be above 1024.`},
		{strings.Replace(validated, "var.port >", "var.other >", 1), Inputs{Vars: []string{"port=80"}},
			`j.hcl:5,24: there is no variable "other"`},
		{strings.Replace(validated, "> 1024", "", 1), Inputs{Vars: []string{"port=80"}},
			`the condition of variable "port" is not true or false`},
		{`variable "a" { type = sting }`, Inputs{}, `j.hcl:1,23: invalid type specification`},
		{"variable \"a\" {\n  type = number\n  default = \"x\"\n}", Inputs{},
			`j.hcl:3,13: the value of variable "a" is not number`},
		{`variable "a b" { default = 1 }`, Inputs{}, `the name "a b" of a variable is not a name of HCL`},
		{"variable \"a\" { default = 1 }\nvariable \"a\" { default = 1 }", Inputs{}, `j.hcl:2,1: duplicate variable "a"`},
		{"variable \"a\" {\n  default = 1\n  validation {}\n}", Inputs{}, `j.hcl:3,14: missing argument "condition"`},
		{strings.Repeat("variable \"a%\" { default = 1 }\n", 1), Inputs{}, `of a variable is not a name of HCL`},
	} {
		_, err := ReadJob("j.hcl", metaFile(c.before, ""), &c.in)
		if !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v:\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

func TestReadJob_ReportsAllFaultsAtOnce(t *testing.T) {
	_, err := parseJob("j.hcl", []byte(`
variable "a" {}
locals {
  b = upper(1, 2)
  c = local.b
}
job "j" {
  name = var.a
  cout = local.c
  group "g" {
    count = "x"
    dynamic "task" {
      for_each = var.a
      content {}
    }
  }
}
`))
	if err == nil {
		t.Fatal("the file is valid")
	}
	want := []string{
		`j.hcl:2,1: variable "a" has no value`,
		`j.hcl:4,16: too many function arguments`,
		`j.hcl:9,3: unsupported argument "cout"`,
		`j.hcl:11,13: invalid value for "count"`,
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Errorf("got %d faults, want %d:\n%v", len(lines), len(want), err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, which lacks %s", err, w)
		}
	}
}

func TestReadJob_EvaluatesExpressions(t *testing.T) {
	const before = `
locals {
  c    = "${local.b}!" # before its parts
  list = ["x", "y"]
}
variable "p" { default = "v" }
locals {
  b = upper(var.p)
}`
	for expression, want := range map[string]string{
		`local.c`: "V!",
		`join(",", [for i, x in local.list : "${i}${x}" if x != "z"])`:     "0x,1y",
		`"%{ for x in local.list }${x}.%{ endfor }"`:                       "x.y.",
		`"%{ if length(local.list) > 1 }many%{ else }one%{ endif }"`:       "many",
		`jsonencode({ for x in local.list : x => upper(x) })`:              `{"x":"X","y":"Y"}`,
		`jsonencode([{ a = 1 }, { a = 2 }][*].a)`:                          "[1,2]",
		`join(",", [for node in local.list : "${node} ${attr.cpu.arch}"])`: "x ${attr.cpu.arch},y ${attr.cpu.arch}",
		`"${HOME} ${lower(local.b)} ${NOMAD_TASK_DIR}"`:                    "${HOME} v ${NOMAD_TASK_DIR}",
		`try(local.nothing, "else")`:                                       "else",
		`can(regex("^a", "b")) ? "yes" : "no"`:                             "no",
		`convert("3", number) + 1`:                                         "4",
		`cidrsubnet("10.0.0.0/8", 8, 2)`:                                   "10.2.0.0/16",
		`base64decode(base64encode("ü"))`:                                  "ü",
		`sha256("x")`:                                                      "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
		`yamldecode("a: [1, 2]").a[1]`:                                     "2",
		`yamlencode({ a = [1, "x"] })`:                                     "a:\n    - 1\n    - x\n",
		`regex_replace("a-b-c", "-(.)", "+$1")`:                            "a+b+c",
		`format("%03d|%s", 7, "x")`:                                        "007|x",
		`strlen(uuidv4())`:                                                 "36",
		`uuidv5("dns", "example.com")`:                                     "cfbff0d1-9375-5685-968c-48ce8b15ae17",
		`strrev("abc")`:                                                    "cba",
		`reverse("abc")`:                                                   "cba",
		`join(",", reverse(["a", "b"]))`:                                   "b,a",
		`jsonencode(setproduct(["a"], ["b", "c"]))`:                        `[["a","b"],["a","c"]]`,
		`jsonencode(jsondecode("{\"a\": [1]}"))`:                           `{"a":[1]}`,
		`basename("/a/b")`:                                                 "b",
		"<<-EOT\n    a ${local.b}\n      b\n    EOT\n":                     "a V\n  b\n",
	} {
		j, err := parseJob("j.hcl", metaFile(before, "v = "+expression))
		switch {
		case err != nil:
			t.Errorf("%s: %v", expression, err)
		case j.Meta["v"] != want:
			t.Errorf("%s: got %q, want %q", expression, j.Meta["v"], want)
		}
	}
}

func TestReadJob_ExpandsDynamicBlocks(t *testing.T) {
	src, err := os.ReadFile("testdata/dynamic.hcl")
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadJob("dynamic.hcl", src, &Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	f.Job.TaskGroups[0].Tasks[0].Resources = &structs.Resources{CPU: -1}
	defaults.Canonicalize(f.Job)
	got := f.Locate(validate.Job(f.Job))
	const want = `dynamic.hcl:48,17: job "dynamic": group "db": task "main": resources: cpu -1`
	if got == nil || !strings.Contains(got.Error(), want) {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestReadJob_FaultsOfDynamicBlocks(t *testing.T) {
	for dynamic, want := range map[string]string{
		`dynamic { }`:                                                `j.hcl:2,3: block "dynamic" has 0 labels; expected dynamic "block" { ... }`,
		`dynamic "group" { }`:                                        `j.hcl:2,3: the dynamic block "group" is not complete`,
		`dynamic "group" { for_each = ["a"] }`:                       `is not complete`,
		`dynamic "group" { for_eech = [] }`:                          `j.hcl:2,21: unsupported argument "for_eech"`,
		"dynamic \"group\" {\n x {}\n}":                              `j.hcl:3,2: unsupported block "x"; expected content`,
		loop("group", `"a"`, "", ""):                                 `for_each has no elements; expected a list`,
		loop("group", `null`, "", ""):                                `for_each has no elements; expected a list`,
		loop("group", `[1]`, "iterator = 1", ""):                     `invalid value for "iterator"`,
		loop("group", `["a"]`, "", ""):                               `block "group" has 0 labels; expected group "name"`,
		loop("group", `[1]`, `labels = 1`, ""):                       `invalid value for "labels"`,
		loop("group", `[1]`, `labels = [null]`, ""):                  `a label is null`,
		loop("group", `["g"]`, `labels = [group.value]`, "cout = 1"): `unsupported argument "cout"`,
		loop("grop", `["g"]`, `labels = [grop.value]`, ""):           `unsupported block "grop" (did you mean "group"?)`,
		loop("group", `["g"]`, `labels = [x.value]`, ""):             `unknown variable`,
	} {
		_, err := parseJob("j.hcl", []byte("job \"j\" {\n  "+dynamic+"\n}\n"))
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", dynamic, err, want)
		}
	}
}

func loop(block, list, more, content string) string {
	return "dynamic \"" + block + "\" {\nfor_each = " + list + "\n" + more + "\ncontent {\n" + content + "\n}\n}"
}

// nested returns an expression with loops within one another, each over the elements of list.
func nested(depth int, list, body string) string {
	for i := range depth {
		name := string(rune('a' + i))
		body = "[for " + name + " in " + list + " : " + body + "]"
	}
	return body
}

// TestReadJob_BoundsEvaluations: no file takes much time or memory.
func TestReadJob_BoundsEvaluations(t *testing.T) {
	const big = "locals {\n  big = join(\"\", [for i in range(1000) : \"0123456789012345678901234567890123456789\"])\n" +
		"  list = [for i in range(1000) : i]\n}\n"
	doubling := "locals {\n  a0 = \"0123456789\"\n"
	for i := range 40 {
		doubling += fmt.Sprintf("  a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	doubling += "}\n"
	aliases := "a: &a [x,x,x,x,x,x,x,x,x]\\n"
	for c := 'b'; c < 'm'; c++ {
		aliases += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\\n"
	}
	for name, src := range map[string]string{
		"doubling":      doubling,
		"loops":         big + "locals {\n x = " + nested(5, "local.list", "1") + "\n}",
		"loops in can":  big + "locals {\n x = can(" + nested(5, "local.list", "1") + ")\n}",
		"faulty loops":  big + "locals {\n x = " + nested(5, "local.list", "local.no") + "\n}",
		"shared values": "locals {\n x = " + sharing(60) + "\n}",
		"long body": "locals {\n four = flatten([for i in range(4) : range(1000)])\n x = [for x in local.four : [" +
			strings.Repeat("x,", 50_000) + "]]\n}",
		"conditions":    big + "locals {\n x = " + nested(3, "local.list", "0 == 0 ? local.list : []") + "\n}",
		"template":      big + "locals {\n x = \"" + strings.Repeat("${local.big}", 5000) + "\"\n}",
		"format":        `locals { x = format("%999999999d", 1) }`,
		"formats":       big + `locals { x = formatlist("%9999999d", local.list) }`,
		"join":          big + `locals { x = join(local.big, local.list) }`,
		"replace":       big + `locals { x = replace(local.big, "0", local.big) }`,
		"regex_replace": big + `locals { x = regex_replace(local.big, "0", local.big) }`,
		"groups":        big + "locals {\n x = regex_replace(local.big, \"(.*)\", \"" + strings.Repeat("$1", 5000) + "\")\n}",
		"regex":         big + `locals { x = regexall("(a?){1000}(b?){1000}(c?){1000}d{900}e{1000}", "${local.big}${local.big}") }`,
		"trim":          big + `locals { x = trim("${local.big}", "${local.big}ü") }`,
		"indent":        `locals { x = indent(999999999, "a\nb") }`,
		"setproduct":    big + `locals { x = setproduct(local.list, local.list, local.list) }`,
		"distinct":      "locals { x = distinct(split(\"\", \"" + strings.Repeat("0123456789", 10_000) + "\")) }",
		"bcrypt":        `locals { x = bcrypt("x", 31) }`,
		"bcrypt loop":   big + `locals { x = [for i in local.list : bcrypt("x")] }`,
		"blocks":        big + loop("group", "local.list", "", loop("task", "local.list", "", "a = 1\nb = 2")),
		"number":        `locals { x = 1e99999999 }`,
		"small number":  `locals { x = "${1e-99999999}" }`,
		"product":       "locals {\n x = \"${" + strings.Repeat("1e99999 * ", 2000) + "1}\"\n}",
		"power":         `locals { x = [for i in range(1000) : parseint(join("", [for k in range(1000): "ffffffffffffff"]), 16)] }`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := parseJob("j.hcl", metaFile(src, ""))
			took := time.Since(start)
			if err == nil || !strings.Contains(err.Error(), "the values of the file are too large") {
				t.Errorf("got %.300v", err)
			}
			if took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
	for name, c := range map[string]struct{ value, want string }{
		"json":    {"jsondecode(join(\"\", [for a in range(1000) : join(\"\", [for b in range(100) : \"[\"])]))", "the arguments are too large"},
		"width":   {`format("%99999999999999999999d", 1)`, "the arguments are too large"},
		"aliases": {"yamldecode(\"" + aliases + "\")", "excessive aliasing"},
	} {
		_, err := parseJob("j.hcl", metaFile("", "x = "+c.value))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v", name, err)
		}
	}
}

// sharing returns an expression whose value has each element twice, in every one of n loops.
func sharing(n int) string {
	body := "x"
	for range n {
		body = "[for x in [[x, x]] : " + body + "]"
	}
	return "[for x in [1] : " + body + "]"
}

// TestParse_BoundsNumbers parses numbers whose text has a billion digits, also in files without expressions.
func TestParse_BoundsNumbers(t *testing.T) {
	_, err := parseJob("j.json", []byte(`{"job": {"j": {"name": 1e99999999}}}`))
	if err == nil || !strings.Contains(err.Error(), "the values of the file are too large") {
		t.Errorf("got %v", err)
	}
	_, err = parseVolume("v.json", []byte(`{"id": 1e99999999, "plugin_id": "p"}`))
	if err == nil || !strings.Contains(err.Error(), "the number is out of range") {
		t.Errorf("got %v", err)
	}
	_, err = parseVolume("v.hcl", []byte("id = 1e-99999999\nplugin_id = \"p\"\n"))
	if err == nil || !strings.Contains(err.Error(), "the number is out of range") {
		t.Errorf("got %v", err)
	}
}

func TestReadJob_ReadsFilesBelowItsFolderOnly(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(outside, "secret"): "s3cret",
		filepath.Join(dir, "a.txt"):      "in a",
		filepath.Join(dir, "sub", "b"):   "in b",
		filepath.Join(dir, "binary"):     "\xff",
		filepath.Join(dir, "large"):      strings.Repeat("x", structs.MaxSource+1),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"in":   "sub/b",
		"out":  outside,
		"leak": filepath.Join(outside, "secret"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	const escapes = "path escapes from parent"
	const outsideFault = "is not in the folder of the job file"
	for expression, want := range map[string]string{
		`file("a.txt")`:                        "in a",
		`file("./sub/../a.txt")`:               "in a",
		`file("in")`:                           "in b",
		`filebase64("binary")`:                 "/w==",
		`fileexists("a.txt")`:                  "true",
		`fileexists("sub")`:                    "false",
		`fileexists("none")`:                   "false",
		`join(",", fileset(".", "**/b"))`:      "sub/b",
		`join(",", fileset(".", "*.txt"))`:     "a.txt",
		`join(",", fileset("sub", "x"))`:       "",
		`abspath("a")`:                         filepath.Join(dir, "a"),
		`file("binary")`:                       "!is not text in UTF-8",
		`file("large")`:                        "!has more than 1048576 bytes",
		`file("pipe")`:                         "!is not a file",
		`file("sub")`:                          "!is not a file",
		`file("none")`:                         "!no such file",
		`file("leak")`:                         "!" + escapes,
		`file("out/secret")`:                   "!" + escapes,
		`file("../x")`:                         "!" + outsideFault,
		`file("/etc/passwd")`:                  "!" + outsideFault,
		`filebase64("leak")`:                   "!" + escapes,
		`fileexists("leak")`:                   "!" + escapes,
		`fileexists("/etc/passwd")`:            "!" + outsideFault,
		`join(",", fileset(".", "out/*"))`:     "",
		`join(",", fileset("out", "*"))`:       "",
		`join(",", fileset("..", "*"))`:        "!" + outsideFault,
		`join(",", fileset("/etc", "passwd"))`: "!" + outsideFault,
	} {
		f, err := ReadJob("j.hcl", metaFile("", "v = "+expression), &Inputs{Dir: dir})
		fault, fails := strings.CutPrefix(want, "!")
		switch {
		case fails && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("%s: got %v, want %s", expression, err, fault)
		case !fails && err != nil:
			t.Errorf("%s: %v", expression, err)
		case !fails && f.Job.Meta["v"] != want:
			t.Errorf("%s: got %q, want %q", expression, f.Job.Meta["v"], want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error has the content of a file", expression)
		}
	}
}

func FuzzReadJob(f *testing.F) {
	for _, file := range []string{
		"full.hcl", "dynamic.hcl", "plugin.json", "json/expressions.hcl", "json/expressions.json",
	} {
		src, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, []byte("image = \"x\"\n"), "image=y", "BERTH_VAR_image=z")
	}
	f.Add([]byte(typed), []byte(`{"n": 1}`), "list=[1]", "NOMAD_VAR_o={ a = 1 }")
	for _, src := range faultyJSON {
		f.Add([]byte(src), []byte(`{"a": 1}`), "a=1", "BERTH_VAR_a=2")
	}
	f.Fuzz(func(t *testing.T, src, values []byte, setting, env string) {
		file, err := ReadJob("j.hcl", src, &Inputs{
			Env:   []string{env},
			Files: []VarFile{{Name: "v.hcl", Source: values}},
			Vars:  []string{setting},
		})
		if err != nil {
			if !structs.IsKind(err, structs.KindInvalid) {
				t.Fatal(err)
			}
			return
		}
		defaults.Canonicalize(file.Job)
		err = file.Locate(validate.Job(file.Job))
		if err != nil {
			return
		}
		if _, err := json.Marshal(file.Job); err != nil {
			t.Fatal(err)
		}
	})
}
