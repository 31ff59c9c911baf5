package template

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"berth/client/allocrunner/taskdirs"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/structs/validate/taskfiles"
)

// render renders a text for the task of the fixture.
func (fx *fixture) render(text string, edit ...func(*structs.Template)) (string, *reads, error) {
	t := &structs.Template{EmbeddedTmpl: text, LeftDelim: "{{", RightDelim: "}}"}
	for _, f := range edit {
		f(t)
	}
	return render(fx.t.Context(), t, newValues(fx.taskEnv()), "")
}

func TestFunctions_AreThoseThatTheServersKnow(t *testing.T) {
	has := (&rendering{ctx: t.Context()}).functions()
	for _, name := range []string{"print", "printf", "println", "html", "js", "urlquery"} {
		delete(has, name)
	}
	got := slices.Sorted(maps.Keys(has))
	want := taskfiles.TemplateFunctions()
	for _, name := range taskfiles.SprigFunctions() {
		want = append(want, "sprig_"+name)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRender_CallsFunctions(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("web/local/in", "in local")
	fx.MustWrite("alloc/data/in", "shared")
	for text, want := range map[string]string{
		`plain`: "plain",
		`{{ env "PORT" }}-{{ env "meta.rack" }}-{{ env "attr.kernel.name" }}-{{ env "NONE" }}`: "80-r1-linux-",
		`{{ envOrDefault "NONE" "x" }}{{ envOrDefault "PORT" "x" }}{{ mustEnv "PORT" }}`:       "x8080",
		`{{ file "local/in" }}{{ file "/local/in" }}{{ "local/in" | file }}`:                   "in localin localin local",
		`{{ file "alloc/data/in" }}{{ file "/alloc/data/in" }}{{ file "../alloc/data/in" }}`:   "sharedsharedshared",

		`{{ base64Encode "a?>" }} {{ base64Decode "YT8+" }} {{ base64URLEncode "a?>x" }} {{ base64URLDecode "YT8-eA" }}`: "YT8+ a?> YT8-eA== a?>x",

		`{{ md5sum "x" }}`:            "9dd4e461268c8034f5c8564e155c67a6",
		`{{ sha256Hex "x" }}`:         "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
		`{{ hmacSHA256Hex "m" "k" }}`: "b60090e3052297aeb5a080889ce2fc4bca957e756faeb4df7d31800ca1e771ec",

		`{{ with parseJSON "{\"a\": [1, \"<\"]}" }}{{ index .a 0 }} {{ toJSON .a }} {{ toUnescapedJSON .a }}{{ end }}`: `1 [1,"\u003c"] [1,"<"]`,
		`{{ parseJSON "{\"a\": 1}" | toJSONPretty }}`:                                                                  "{\n  \"a\": 1\n}",
		`{{ parseYAML "a: [1, x]" | toYAML }}`:                                                                         "a:\n    - 1\n    - x",
		`{{ parseYAML "a: [1, 2]" | toTOML }}`:                                                                         "a = [1, 2]",
		`{{ parseJSON "" | toJSON }}{{ parseYAML "" | toJSON }}`:                                                       "{}{}",
		`{{ add 1 2 }} {{ subtract 1 3 }} {{ 7 | divide 2 }} {{ modulo 4 7 }} {{ multiply 2 1.5 }}`:                    "3 2 3 3 3",
		`{{ minimum 1 2 }} {{ maximum 1 2.5 }} {{ add (parseUint "1") (parseInt "2") }}`:                               "1 2.5 3",
		`{{ parseBool "true" }} {{ parseFloat "1.5" }} {{ parseInt "" }}`:                                              "true 1.5 0",

		`{{ range loop 3 }}{{ . }}{{ end }} {{ range loop 2 4 }}{{ . }}{{ end }} {{ range loop "2" }}{{ . }}{{ end }}`: "012 23 01",
		`{{ split "," " a,b " | join "+" }} {{ parseJSON "[1,2]" | join "," }}`:                                        "a+b 1,2",
		`{{ splitToMap "," ":" "a:1,b:2" | toJSON }}`:                                                                  `{"a":"1","b":"2"}`,
		`{{ "a b" | replaceAll "a" "cc" }} {{ regexReplaceAll "(a)(b)" "$2$1" "xabx" }}`:                               "cc b xbax",
		`{{ regexMatch "^a+$" "aa" }} {{ "x y_z" | toTitle }} {{ toUpper "a" }}{{ toLower "B" }}`:                      "true X Y_z Ab",
		`{{ trim "xy" "xay" }}{{ trimPrefix "a" "ab" }}{{ trimSuffix "b" "ab" }}{{ trimSpace " a " }}`:                 "abaa",
		`{{ "a\n\nb" | indent 2 }}`: "  a\n\n  b",
		`{{ in (split "," "a,b") "b" }} {{ contains 1 (parseJSON "[1]") }} {{ "abc" | contains "b" }}`:               "true false true",
		`{{ $l := split "," "a,b" }}{{ containsAll (split "," "a") $l }} {{ containsAny (split "," "c") $l }}`:       "true false",
		`{{ $l := split "," "a,b" }}{{ containsNone (split "," "c") $l }} {{ containsNotAll (split "," "a,c") $l }}`: "true true",
		`{{ parseJSON "{\"a/b\": 1, \"c\": 2}" | explodeMap | toJSON }}`:                                             `{"a":{"b":1},"c":2}`,
		`{{ mergeMap (parseJSON "{\"a\":{\"x\":1}}") (parseJSON "{\"a\":{\"x\":2,\"y\":3}}") | toJSON }}`:            `{"a":{"x":1,"y":3}}`,
		`{{ mergeMapWithOverride (parseJSON "{\"a\":1}") (parseJSON "{\"a\":2}") | toJSON }}`:                        `{"a":2}`,

		`{{ define "x" }}[{{ . }}]{{ end }}{{ executeTemplate "x" 1 }}{{ template "x" 2 }}`:         "[1][2]",
		`{{ scratch.Set "a" 1 }}{{ scratch.SetX "a" 2 }}{{ scratch.Get "a" }}{{ scratch.Key "b" }}`: "1false",
		`{{ scratch.MapSet "m" "b" 2 }}{{ scratch.MapSetX "m" "a" 1 }}{{ scratch.MapValues "m" }}`:  "[1 2]",
		`{{ printf "%05.1f|%s" 1.25 "x" }}{{ print 1 2 }}{{ html "<" }}{{ urlquery "?" }}`:          "001.2|x1 2&lt;%3F",
		`{{ (parseJSON "{}").none }}`: "<no value>",
		`{{ len (timestamp "2006") }}{{ if gt (timestamp "unix") "1" }}y{{ end }}{{ len timestamp }}`: "4y20",
	} {
		got, _, err := fx.render(text)
		if err != nil || got != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", text, got, err, want)
		}
	}
}

func TestRender_FollowsTheSettings(t *testing.T) {
	fx := newFixture(t)
	_, _, err := fx.render(`{{ (parseJSON "{}").none }}`, func(x *structs.Template) { x.ErrMissingKey = true })
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), `no entry for key "none"`) {
		t.Errorf("got %v", err)
	}
	got, _, err := fx.render(`{{ x }} [[ env "PORT" ]]`, func(x *structs.Template) {
		x.LeftDelim, x.RightDelim = "[[", "]]"
	})
	if err != nil || got != "{{ x }} 80" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A text has the rights of neither its author's programs nor the agent: it cannot use up time or memory, nor
// end the agent by a full stack.
func TestRender_IsBounded(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("web/local/large", strings.Repeat("x", structs.MaxTemplateBytes))
	fx.MustWrite("web/local/larger", strings.Repeat("x", structs.MaxTemplateBytes+1))
	deep := strings.Repeat("[", 2*maxLevels) + strings.Repeat("]", 2*maxLevels)
	for text, want := range map[string]string{
		`{{ range 9223372036854775807 }}{{ end }}`:                             "more than 100000 steps",
		`{{ range loop 9223372036854775807 }}{{ end }}`:                        "more than 100000 steps",
		`{{ range 500 }}{{ range 500 }}{{ else }}{{ end }}{{ end }}`:           "more than 100000 steps",
		`{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`:        "more than 100 levels deep",
		`{{ define "x" }}{{ executeTemplate "x" }}{{ end }}{{ template "x" }}`: "more than 100 levels deep",
		`{{ $x := "aaaaaaaa" }}{{ range 40 }}{{ $x = print $x $x }}{{ end }}`:  "more than 67108864 bytes",
		`{{ indent 2000000000 "a" }}`:                                          "more than 67108864 bytes",
		`{{ $x := file "local/large" }}{{ replaceAll "x" $x $x }}`:             "more than 67108864 bytes",
		`{{ $x := file "local/large" }}{{ regexReplaceAll "x" $x $x }}`:        "more than 67108864 bytes",
		`{{ $x := file "local/large" }}{{ split "" $x | join $x }}`:            "more than 67108864 bytes",
		`{{ range 90000 }}0123456789ab{{ end }}`:                               "more than",
		`{{ printf "%1000d" 1 }}`:                                              "a width above 999",
		`{{ printf "%*d" 100000000 1 }}`:                                       "a width above 999",
		`{{ printf "%[1]s%[1]s" "x" }}`:                                        "a width above 999",
		`{{ regexMatch "` + strings.Repeat("a", 1001) + `" "" }}`:              "more than 1000 bytes",
		`{{ parseJSON "` + deep + `" }}`:                                       "more than 50 levels deep",
		`{{ parseYAML "` + deep + `" }}`:                                       "more than 50 levels deep",
		`{{ $x := print "{\"" }}{{ range 60 }}{{ $x = print $x "a/" }}{{ end }}{{ print $x "b\":1}" | parseJSON | explodeMap }}`: "more than 50 levels",
		`{{ scratch.MapSet "m" "x" (parseJSON "{}") }}`:                                "is not a text, a number or a boolean",
		`{{ scratch.MapSet "m" "x" 1 }}{{ scratch.MapSet "m" "m" (scratch.Get "m") }}`: "is not a text, a number or a boolean",
		`{{ range 300 }}{{ env (print .) }}{{ end }}`:                                  "more than 256 variables, files, services and keys",
		`{{ file "local/larger" }}`:                                                    "too large",
		`{{ file "local/large" }}{{ file "/local/large" }}`:                            "too large",
		`{{ file "local/large" }}x`:                                                    "the rendered text has more than 1048576 bytes",
		`{{ divide 0 1 }}`:                                                             "divide by zero",
		`{{ add "a" 1 }}`:                                                              "does not take int and string",
		`{{ mustEnv "NONE" }}`:                                                         "the variable NONE is empty or not set",
		`{{ template "none" }}`:                                                        `template "none" not defined`,
		`{{ if }}`:                                                                     "missing value for if",
		`{{ node "x" }}`:                                                               "services and keys alone",
	} {
		_, _, err := fx.render(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s:\n got %v\nwant %q", text, err, want)
		}
	}
}

// A function that would make a large value is rejected before it has made it.
func TestRender_TakesLittleMemory(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("web/local/text", strings.Repeat("x", 256<<10))
	fx.MustWrite("web/local/deep", `{"`+strings.Repeat("a/", 500_000)+`":1}`)
	for text, want := range map[string]string{
		`{{ file "local/text" | split "" | printf "%999s" }}`:                              "more than 67108864 bytes",
		`{{ file "local/text" | regexReplaceAll "` + strings.Repeat("()", 100) + `" "" }}`: "more than 67108864 bytes",
		`{{ file "local/deep" | parseJSON | explodeMap }}`:                                 "more than 50 levels",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := fx.render(text)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s:\n got %v\nwant %q", text, err, want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > mostTaken {
			t.Errorf("%.120s: took %d bytes", text, took)
		}
	}
}

// The stack of the agent has capacity for the deepest text.
func TestRender_AcceptsDeepTexts(t *testing.T) {
	fx := newFixture(t)
	nested := func(before, inner, after string) string {
		n := (structs.MaxTemplateText - len(inner)) / len(before+after)
		return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
	}
	for _, text := range []string{
		nested("{{if 1}}", "", "{{end}}"),
		nested("{{range 1}}", "", "{{end}}"),
		"{{if 1}}" + strings.Repeat("{{else if 1}}", 15_000) + "{{end}}",
		"{{" + strings.Repeat("print (", 30_000) + "1" + strings.Repeat(")", 30_000) + "}}",
	} {
		_, _, err := fx.render(text)
		if err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

func TestRender_EndsWithItsContext(t *testing.T) {
	fx := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := &structs.Template{EmbeddedTmpl: "{{ range 1 }}{{ end }}", LeftDelim: "{{", RightDelim: "}}"}
	_, _, err := render(ctx, x, newValues(fx.taskEnv()), "")
	if err == nil || !strings.Contains(err.Error(), "its task was stopped") {
		t.Errorf("got %v", err)
	}
}

// FuzzRender renders hostile texts with hostile values: of a variable and of a file. Nothing of a file that
// is outside of the task's directories gets into the result.
func FuzzRender(f *testing.F) {
	for _, text := range []string{
		`{{ env "A" }}`, `{{ range $i, $x := split "," "a,b" }}{{ $x }}{{ else }}{{ break }}{{ end }}`,
		`{{ define "x" }}{{ end }}{{ block "y" . }}{{ continue }}{{ end }}`, `{{ (parseJSON "{}").a.b }}`,
		`{{/* */}}{{- with 1 }}{{ end -}}`, `{{ call (index (split "," "a") 0) }}`, `{{ scratch }}{{ loop 1 }}`,
		`{{ file "local/f" | parseJSON | toTOML }}`, `{{ file "local/f" | parseYAML | toJSONPretty }}`,
		`{{ range $k, $v := file "local/f" | parseJSON }}{{ $k }}{{ $v }}{{ end }}`, `{{ file (env "A") }}`,
		`{{ env "A" | base64Decode | splitToMap "," ":" | toYAML }}`, `{{ regexReplaceAll (env "A") "$1" (file "local/f") }}`,
		`{{ executeTemplate (env "A") }}`, `{{ loop (env "A" | parseInt) }}{{ end }}`, `{{ file "../outside" }}`,
		`{{ meta.rack }}{{ env "meta.rack" }}{{ timestamp (env "A") }}`, `{{ indent 999999999 (file "local/f") }}`,
		`{{ explodeMap (file "local/f" | parseJSON) | mergeMap (file "local/f" | parseYAML) | toJSON }}`,
	} {
		f.Add(text, "../../outside", `{"a":{"b/c":[1,null,"x"]}}`)
		f.Add(text, "local/../../outside", "a: &a [1, 2]\nb: [*a, *a]\n")
		f.Add(text, "9999999999", `{"a":1e999,"b":`)
	}
	root := f.TempDir()
	own := filepath.Join(root, "web")
	for path, text := range map[string]string{
		"web/local/f":  "",
		"outside":      "kept outside",
		"alloc/data/f": "x",
	} {
		path = filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	err := os.Symlink("../../outside", filepath.Join(own, "local/link"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, value, content string) {
		err := os.WriteFile(filepath.Join(own, "local/f"), []byte(content), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		v := &values{
			env:  map[string]string{"A": value},
			node: func() *structs.Node { return &structs.Node{Meta: map[string]string{"rack": value}} },
			dirs: taskdirs.NewFiles(&hooks.TaskEnv{
				Config: &driver.TaskConfig{Dirs: driver.Dirs{
					Task:        own,
					AllocShared: filepath.Join(root, "alloc"),
				}},
				Seen: driver.Inside,
			}),
		}
		x := &structs.Template{EmbeddedTmpl: text, LeftDelim: "{{", RightDelim: "}}"}
		ctx, cancel := context.WithTimeout(t.Context(), maxTime)
		defer cancel()
		out, _, err := render(ctx, x, v, "")
		if err == nil && len(out) > structs.MaxTemplateBytes {
			t.Errorf("got %d bytes", len(out))
		}
		given := strings.Contains(text+value+content, "kept outside")
		if strings.Contains(out, "kept outside") && !given {
			t.Errorf("got %q", out)
		}
	})
}
