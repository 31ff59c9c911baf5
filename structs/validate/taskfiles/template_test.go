package taskfiles

import (
	"os"
	"slices"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/validate/field"
)

func TestParseText_RejectsCallsOfUnknownFunctions(t *testing.T) {
	for text, want := range map[string]string{
		`{{ nodes }}`:                                         "the function nodes is rejected: of Consul, templates read services and keys alone",
		`{{ with pkiCert "a" }}{{ end }}`:                     "let secret write to the path of the role",
		`{{ range nomadService "a" }}{{ end }}`:               "",
		`{{ (nomadVar "a").x }}`:                              "",
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
		strings.Repeat("x", structs.MaxTemplateText+1):        "the text has 262145 bytes; at most 262144 are allowed",
		`{{ range loop 3 }}{{ . | add 1 | print }}{{ end }}`:  "",
		`{{ with $x := env "A" }}{{ printf "%s" $x }}{{end}}`: "",
	} {
		_, err := ParseText(&structs.Template{LeftDelim: "{{", RightDelim: "}}"}, text)
		if want == "" && err != nil || want != "" && (!structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: want %q, got %v", text, want, err)
		}
	}
	_, err := ParseText(&structs.Template{LeftDelim: "[[", RightDelim: "]]"}, `{{ node "a" }} [[ env "X" ]]`)
	if err != nil {
		t.Error(err)
	}
}

// TestTemplate_NamesEachRejectedFunction lists the functions by the places of their first calls.
func TestTemplate_NamesEachRejectedFunction(t *testing.T) {
	x := &structs.Template{
		EmbeddedTmpl: "{{ define `a` }}{{ plugin `x` }}{{ end }}{{ node `k` }}{{ env `A` }}{{ node `l` }}{{ pkiCert `s` }}",
		DestPath:     "local/x",
		LeftDelim:    "{{",
		RightDelim:   "}}",
		ChangeMode:   structs.TemplateRestart,
		Perms:        "644",
	}
	f := field.New("")
	checkTemplate(f.At("template 1"), x)
	var named []string
	for _, line := range f.Found().Lines() {
		text, _, _ := strings.Cut(line, " is rejected: ")
		named = append(named, text)
	}
	want := []string{
		"template 1: data: the function plugin",
		"template 1: data: the function node",
		"template 1: data: the function pkiCert",
	}
	if !slices.Equal(named, want) {
		t.Errorf("got %q\nwant %q", named, want)
	}
}

func TestTemplateFunctions_AreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/templates.md")
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
