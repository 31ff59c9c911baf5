package auditlog

import (
	"strings"
	"testing"
	"time"

	"berth/internal/conf"
	"berth/test/kit"
)

func decode(t *testing.T, text string) (Config, error) {
	t.Helper()
	var c struct {
		Audit Config `hcl:"audit,block"`
	}
	err := conf.Decode("x.hcl", []byte("audit {\n"+text+"\n}"), &c, conf.Positions{})
	c.Audit.Finish("/data")
	return c.Audit, err
}

func TestConfig_ReadsTheBlockOfTheDialect(t *testing.T) {
	c, err := decode(t, `
enabled = true
sink "audit" {
  type               = "file"
  delivery_guarantee = "best-effort"
  format             = "json"
  path               = "/var/log/audit.log"
  mode               = "0640"
  rotate_bytes       = 1000000
  rotate_duration    = "1h"
  rotate_max_files   = 10
}
filter "reads" {
  type       = "HTTPEvent"
  endpoints  = ["/v1/metrics"]
  stages     = ["*"]
  operations = ["GET"]
}
filter "stages" {
  stages = ["OperationReceived"]
}
sink "Out-2" { type = "stdout" }
sink "out_3" { type = "syslog" }`)
	kit.Must(t, err)
	kit.Must(t, c.Validate())
	want := Sink{
		Name: "audit", Type: "file", DeliveryGuarantee: "best-effort", Format: "json", Path: "/var/log/audit.log",
		Mode: "0640", RotateBytes: 1000000, RotateDuration: time.Hour, RotateMaxFiles: 10,
	}
	if *c.Sinks[0] != want || c.Filters[0].Name != "reads" || len(c.Filters[0].Stages) != 1 ||
		c.Filters[1].Type != "HTTPEvent" {
		t.Errorf("got %+v and %+v", *c.Sinks[0], *c.Filters[0])
	}
}

func TestConfig_HasADefaultSink(t *testing.T) {
	c, err := decode(t, "enabled = true")
	kit.Must(t, err)
	kit.Must(t, c.Validate())
	want := Sink{
		Name: "audit", Type: "file", DeliveryGuarantee: "enforced", Format: "json", Path: "/data/audit/audit.log",
		Mode: "0600", RotateDuration: 24 * time.Hour,
	}
	if len(c.Sinks) != 1 || *c.Sinks[0] != want {
		t.Errorf("got %+v", c.Sinks)
	}
	off, err := decode(t, "")
	kit.Must(t, err)
	if len(off.Sinks) != 0 || off.Validate() != nil {
		t.Errorf("without enabled: got %+v", off.Sinks)
	}
}

func TestConfig_NamesItsFaults(t *testing.T) {
	sink := func(lines string) string { return "sink \"a\" {\n" + lines + "\n}" }
	file := func(lines string) string { return sink("type = \"file\"\n" + lines) }
	filter := func(lines string) string { return "filter \"f\" {\n" + lines + "\n}" }
	for text, want := range map[string]string{
		sink(``):                                            `sink "a": type is ""; expected one of file, stdout, syslog`,
		sink(`type = "http"`):                               `type is "http"`,
		file(`delivery_guarantee = "some"`):                 `delivery_guarantee is "some"; expected enforced or best-effort`,
		file(`format = "xml"`):                              `format is "xml"`,
		file(`path = "audit.log"`):                          `path is "audit.log"; expected the absolute path`,
		file(`path = "/audit/"`):                            `path is "/audit/"`,
		file(`mode = "0666"`):                               `mode is "0666"`,
		file(`mode = "0400"`):                               `mode is "0400"`,
		file(`mode = "4600"`):                               `mode is "4600"`,
		file(`mode = "x"`):                                  `mode is "x"`,
		file(`rotate_bytes = 100`):                          `rotate_bytes is 100; expected at least 65536`,
		file(`rotate_duration = "1ms"`):                     `rotate_duration is 1ms`,
		file(`rotate_duration = "999ms"`):                   `rotate_duration is 999ms`,
		file(`rotate_duration = "87601h"`):                  `rotate_duration is 87601h0m0s`,
		file(`rotate_max_files = -1`):                       `rotate_max_files is -1`,
		file(`rotate_max_files = 100001`):                   `rotate_max_files is 100001`,
		file(`path = "/` + strings.Repeat("x", 1024) + `"`): `of at most 1024 bytes`,
		sink("type = \"stdout\"\npath = \"/x\""):            `are those of a file`,
		file(``) + "\n" + file(``):                          `sink "a" is there twice`,
		file(``) + "\nsink \"b\" { type=\"file\" }":         `the file "/data/audit/audit.log" has another sink`,
		"sink \"a b\" { type=\"stdout\" }":                  `expected a name`,
		strings.Repeat(file(``)+"\n", 9):                    `sinks`,
		strings.Repeat(filter(`stages = ["*"]`)+"\n", 65):   `filters`,
		"filter \"a b\" { stages = [\"*\"] }":               `filter "a b": expected a name`,
		filter(`type = "Other"` + "\n" + `stages = ["*"]`):  `type is "Other"; expected HTTPEvent, the only one`,
		filter(``):                   `expected endpoints, stages or operations, found none`,
		filter(`stages = ["Begin"]`): `stage "Begin"`,
		filter(`endpoints = [""]`):   `an entry has 0 bytes`,
		filter(`endpoints = ["` + strings.Repeat("x", 1025) + `"]`): `an entry has 1025 bytes`,
		filter(`stages = ["*"` + strings.Repeat(`, "*"`, 64) + `]`): `entries of a list of filter f`,
	} {
		c, err := decode(t, text)
		kit.Must(t, err)
		err = c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestConfig_TakesTheBoundsThemselves(t *testing.T) {
	c, err := decode(t, `
sink "`+strings.Repeat("x", 64)+`" {
  type             = "file"
  path             = "/`+strings.Repeat("x", maxPath-1)+`"
  rotate_bytes     = 65536
  rotate_duration  = "1s"
  rotate_max_files = 100000
}
sink "old" {
  type            = "file"
  rotate_duration = "87600h"
}
filter "f" { endpoints = ["`+strings.Repeat("x", 1024)+`"] }`)
	kit.Must(t, err)
	kit.Must(t, c.Validate())
}

func TestConfig_NamesAreShortAndPlain(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "0": true, "9": true, "-": true, "_": true,
		strings.Repeat("x", 64): true,

		"": false, "`": false, "{": false, "@": false, "[": false, "/": false, ":": false, ".": false,
		"a b": false, "\u00e9": false, strings.Repeat("x", 65): false,
	} {
		if got := isName(name); got != want {
			t.Errorf("%q is a name: %t, want %t", name, got, want)
		}
	}
}
