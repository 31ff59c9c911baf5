package template

import (
	"strings"
	"testing"

	"berth/structs"
)

// Every machine has the interface lo.
func TestSockaddr_SelectsAddressesOfTheNode(t *testing.T) {
	fx := newFixture(t)
	for text, want := range map[string]string{
		`{{ sockaddr "GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"IPv4\" | limit 1 | attr \"address\"" }}`: "127.0.0.1",
		`{{ sockaddr ". | include \"name\" \"^lo$\" | include \"type\" \"IPv4\" | join \"address\" \",\"" }}`:                    "127.0.0.1",
		`{{ sockaddr "len" "\"lo\"" }}`: "2",
		`{{ sockaddr "with $a := GetAllInterfaces | include \"name\" \"^lo$\" | sort \"type,size\" | include \"type\" \"ipv4\" | limit 1 -}}` +
			`{{- range $a -}}{{ attr \"address\" . }}{{ end }}{{ end " }}:3300`: "127.0.0.1:3300",
		`{{ sockaddr "printf \"%s\" \"a\" }}{{ if and (eq 1 1) (not (gt 1 2)) }}b{{ end" }}`:    "ab",
		`{{ sockaddr "GetAllInterfaces | include \"name\" \"^none$\" | join \"name\" \" \"" }}`: "",
	} {
		got, reads, err := fx.render(text)
		if err != nil || got != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", text, got, err, want)
		}
		if reads.changes() {
			t.Errorf("%s: its values are looked at again", text)
		}
	}
}

func TestSockaddr_IsBounded(t *testing.T) {
	fx := newFixture(t)
	long := strings.Repeat("x", maxAddressText)
	for text, want := range map[string]string{
		`{{ sockaddr "` + long + `" }}`:                                                    "the text has more than 1000 bytes",
		`{{ sockaddr "range 9223372036854775807 }}{{ end" }}`:                              "more than 100000 steps",
		`{{ range 500 }}{{ sockaddr "range 500 }}{{ end" }}{{ end }}`:                      "more than 100000 steps",
		`{{ sockaddr "define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\"" }}`:   "more than 100 levels deep",
		`{{ define "x" }}{{ sockaddr "1" }}{{ template "x" }}{{ end }}{{ template "x" }}`:  "more than 100 levels deep",
		`{{ sockaddr "$x := \"aaaaaaaa\" }}{{ range 40 }}{{ $x = print $x $x }}{{ end" }}`: "more than 67108864 bytes",
		`{{ sockaddr "range 2000 }}{{ printf \"%999d\" 1 }}{{ end" }}`:                     "more than 1048576 bytes",
		`{{ sockaddr "printf \"%*d\" 100000000 1" }}`:                                      "a width above 999",
		`{{ sockaddr "$x := printf \"%999d%9d\" 1 1 }}{{ include \"name\" $x ." }}`:        "include of sockaddr gets more than 1000 bytes",
		`{{ sockaddr "$x := printf \"%999d%9d\" 1 1 }}{{ join \"name\" $x ." }}`:           "join of sockaddr gets more than 1000 bytes",
		`{{ sockaddr "file \"local/x\"" }}`:                                                "error calling sockaddr: " + hidden,
		`{{ sockaddr "call .x" }}`:                                                         "error calling sockaddr: " + hidden,
		`{{ sockaddr "limit 18446744073709551615 ." }}`:                                    "error calling sockaddr: " + hidden,
		`{{ sockaddr "if" }}`: "error calling sockaddr: " + hidden,
	} {
		_, _, err := fx.render(text)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s:\n got %v\nwant %q", text, err, want)
		}
	}
}
