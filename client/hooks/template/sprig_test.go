package template

import (
	"runtime"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/validate/taskfiles"
)

// Each function of the library is either known to the servers or rejected with a reason.
func TestSprigFunctions_AreAllowedOrRejected(t *testing.T) {
	for name := range library {
		if taskfiles.SprigRejection(name) == "sprig has no such function" {
			t.Errorf("the servers do not know %s", name)
		}
	}
	for _, name := range taskfiles.SprigFunctions() {
		if library[name] == nil {
			t.Errorf("the library has no function %s", name)
		}
	}
}

func TestRender_CallsFunctionsOfSprig(t *testing.T) {
	fx := newFixture(t)
	for text, want := range map[string]string{
		`{{ "" | sprig_default "x" }}{{ env "PORT" | sprig_default "x" }}`:                                "x80",
		`{{ sprig_list 1 "a" true | sprig_join "-" }} {{ sprig_quote "a" "b" }}`:                          `1-a-true "a" "b"`,
		`{{ sprig_ternary "a" "b" true }}{{ "aB" | sprig_upper }}{{ "aB" | sprig_swapcase }}`:             "aABAb",
		`{{ sprig_dict "b" 2 "a" 1 | sprig_keys }} {{ sprig_dict "b" 2 "a" 1 | sprig_values }}`:           "[a b] [1 2]",
		`{{ sprig_get (sprig_dict "a" "x") "a" }}{{ sprig_dig "a" "b" "y" (sprig_dict) }}`:                "xy",
		`{{ "x" | sprig_repeat 3 }}{{ "a\nb" | sprig_indent 2 }}{{ "a\n\nb" | sprig_nindent 1 }}`:         "xxx  a\n  b\n a\n \n b",
		`{{ sprig_seq 3 }}/{{ sprig_seq 3 1 }}/{{ sprig_seq 0 2 4 }}/{{ sprig_seq 4 2 0 }}`:               "1 2 3/3 2 1/0 2 4/",
		`{{ sprig_until 3 }}{{ sprig_until -2 }}{{ sprig_untilStep 0 10 5 }}`:                             "[0 1 2][0 -1][0 5]",
		`{{ sprig_split "," "a,b" }} {{ (sprig_splitn "," 2 "a,b,c")._1 }}`:                               "map[_0:a _1:b] b,c",
		`{{ sprig_splitList "," "a,b" | sprig_last }} {{ sprig_list 1 2 1 | sprig_uniq }}`:                "b [1 2]",
		`{{ sprig_without (sprig_list 1 2 3) 2 }} {{ sprig_has 2 (sprig_list 1 2) }}`:                     "[1 3] true",
		`{{ sprig_fromJson "{\"a\":1}" | sprig_toJson }} {{ sprig_fromJson "{" }}`:                        `{"a":1} <no value>`,
		`{{ sprig_add 1 "2" }} {{ sprig_mul 2 3 }} {{ sprig_max 1 3 2 }} {{ sprig_round 1.26 1 }}`:        "3 6 3 1.3",
		`{{ sprig_regexFindAll "[a-z]" "a1b" -1 }} {{ sprig_regexReplaceAll "(a)" "xa" "${1}b" }}`:        "[a b] xab",
		`{{ sprig_regexReplaceAllLiteral "a" "xa" "$1" }} {{ sprig_regexSplit "," "a,b" -1 }}`:            "x$1 [a b]",
		`{{ sprig_semverCompare ">= 1.2" "1.3.0" }} {{ (sprig_urlParse "http://h:1/p").host }}`:           "true h:1",
		`{{ sprig_snakecase "FirstName" }} {{ "abc" | sprig_trunc 2 }} {{ sprig_b64enc "a" }}`:            "first_name ab YQ==",
		`{{ sprig_replace "a" "b" "aa" }} {{ sprig_trimAll "$" "$5" }} {{ "p/x.y" | sprig_base }}`:        "bb 5 x.y",
		`{{ sprig_chunk 2 (sprig_list 1 2 3) }} {{ sprig_sha1sum "x" | sprig_substr 0 4 }}`:               "[[1 2] [3]] 11f6",
		`{{ with sprig_list 1 2 }}{{ sprig_append . 3 }}{{ sprig_first . }}{{ sprig_kindOf . }}{{ end }}`: "[1 2 3]1slice",
	} {
		got, _, err := fx.render(text)
		if err != nil || got != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", text, got, err, want)
		}
	}
}

func TestRender_RejectsFunctionsOfSprig(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("web/local/text", strings.Repeat("x", 1<<20))
	for text, want := range map[string]string{
		`{{ sprig_genPrivateKey "rsa" }}`:                                           "makes and uses no keys",
		`{{ sprig_env "HOME" }}`:                                                    "the environment of the agent",
		`{{ sprig_set (sprig_dict) "a" 1 }}`:                                        "a value does not change",
		`{{ sprig_fail "wrong" }}`:                                                  "it failed",
		`{{ sprig_mustFromJson "{" }}`:                                              "it failed",
		`{{ sprig_first 1 }}`:                                                       "it failed",
		`{{ sprig_chunk 0 (sprig_list 1 2) }}`:                                      "it failed",
		`{{ sprig_untilStep 0 9223372036854775807 9223372036854775806 }}`:           "beyond the numbers of a list",
		`{{ sprig_seq 9223372036854775807 }}`:                                       "beyond the numbers of a list",
		`{{ sprig_regexMatch "` + strings.Repeat("a", 1001) + `" "" }}`:             "more than 1000 bytes",
		`{{ sprig_semverCompare "` + strings.Repeat("1", 1001) + `" "1" }}`:         "more than 1000 bytes",
		`{{ sprig_trimAll "` + strings.Repeat("a", 1001) + `" "" }}`:                "more than 1000 bytes",
		`{{ trim "` + strings.Repeat("a", 1001) + `" "" }}`:                         "more than 1000 bytes",
		`{{ $x := file "local/text" }}{{ sprig_regexReplaceAllLiteral "x" $x $x }}`: "more than 67108864 bytes",
		`{{ sprig_repeat -1 "x" }}`:                                                 "-1 times",
	} {
		_, _, err := fx.render(text)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", text, err, want)
		}
	}
}

// Neither a number nor a text that is named many times makes a function take much memory or time.
func TestRender_OfSprigTakesLittleMemory(t *testing.T) {
	fx := newFixture(t)
	fx.MustWrite("web/local/text", strings.Repeat("x", 1<<20))
	fx.MustWrite("web/local/lines", strings.Repeat("\n", 1<<20))
	text := `{{ $x := file "local/text" }}`
	lines := `{{ $x := file "local/lines" }}`
	for _, text := range []string{
		`{{ sprig_repeat 9000000000000000000 "xx" }}`,
		`{{ sprig_repeat 2000000000 "x" }}`,
		`{{ sprig_until 2000000000 }}`,
		`{{ sprig_until -2000000000 }}`,
		`{{ sprig_untilStep 0 2000000000 1 }}`,
		`{{ sprig_seq 2000000000 }}`,
		`{{ sprig_seq 1 1 2000000000 }}`,
		`{{ sprig_indent 2000000000 "x" }}`,
		`{{ sprig_nindent 2000000000 "x" }}`,
		lines + `{{ sprig_indent 10000 $x }}`,
		text + `{{ sprig_replace "x" $x $x }}`,
		text + `{{ sprig_splitList "" (print $x $x $x $x) }}`,
		text + `{{ sprig_split "" $x }}`,
		text + `{{ sprig_splitn "" 1000000 $x }}`,
		text + `{{ sprig_regexFindAll "" (print $x $x $x) -1 }}`,
		text + `{{ sprig_regexSplit "" $x -1 }}`,
		text + `{{ sprig_until 10000 | sprig_join $x }}`,
		`{{ sprig_until 10000 | sprig_uniq }}`,
		`{{ sprig_without (sprig_until 100000) 1 2 3 4 5 6 7 8 9 10 11 12 | sprig_uniq }}`,
		text + `{{ sprig_fromJson (print $x $x $x $x $x) }}`,
		text + `{{ sprig_cat ` + strings.Repeat("$x ", 200) + `}}`,
		text + `{{ print ` + strings.Repeat("$x ", 200) + `}}`,
		text + `{{ sprig_quote ` + strings.Repeat("$x ", 200) + `}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := fx.render(text)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
			t.Errorf("%.100s: got %v", text, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > mostTaken {
			t.Errorf("%.100s: took %d bytes", text, took)
		}
	}
}
