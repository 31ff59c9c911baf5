package auditlog

import (
	"strings"
	"testing"
	"time"

	"berth/internal/hclconf"
)

func decode(t *testing.T, text string) (Config, error) {
	t.Helper()
	var c struct {
		Audit Config `hcl:"audit,block"`
	}
	err := hclconf.Decode("x.hcl", []byte("audit {\n"+text+"\n}"), &c, hclconf.Positions{})
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
}`)
	must(t, err)
	must(t, c.Validate())
	want := Sink{
		Name: "audit", Type: "file", DeliveryGuarantee: "best-effort", Format: "json", Path: "/var/log/audit.log",
		Mode: "0640", RotateBytes: 1000000, RotateDuration: time.Hour, RotateMaxFiles: 10,
	}
	if *c.Sinks[0] != want || c.Filters[0].Name != "reads" || len(c.Filters[0].Stages) != 1 {
		t.Errorf("got %+v and %+v", *c.Sinks[0], *c.Filters[0])
	}
}

func TestConfig_HasADefaultSink(t *testing.T) {
	c, err := decode(t, "enabled = true")
	must(t, err)
	must(t, c.Validate())
	want := Sink{
		Name: "audit", Type: "file", DeliveryGuarantee: "enforced", Format: "json", Path: "/data/audit/audit.log",
		Mode: "0600", RotateDuration: 24 * time.Hour,
	}
	if len(c.Sinks) != 1 || *c.Sinks[0] != want {
		t.Errorf("got %+v", c.Sinks)
	}
	off, err := decode(t, "")
	must(t, err)
	if len(off.Sinks) != 0 || off.Validate() != nil {
		t.Errorf("without enabled: got %+v", off.Sinks)
	}
}

func TestConfig_NamesItsFaults(t *testing.T) {
	sink := func(lines string) string { return "sink \"a\" {\n" + lines + "\n}" }
	file := func(lines string) string { return sink("type = \"file\"\n" + lines) }
	filter := func(lines string) string { return "filter \"f\" {\n" + lines + "\n}" }
	for text, want := range map[string]string{
		sink(``):                                           `sink "a": type is ""; expected one of file, stdout, syslog`,
		sink(`type = "http"`):                              `type is "http"`,
		file(`delivery_guarantee = "some"`):                `delivery_guarantee is "some"; expected enforced or best-effort`,
		file(`format = "xml"`):                             `format is "xml"`,
		file(`path = "audit.log"`):                         `path is "audit.log"; expected the absolute path`,
		file(`path = "/audit/"`):                           `path is "/audit/"`,
		file(`mode = "0666"`):                              `mode is "0666"`,
		file(`mode = "0400"`):                              `mode is "0400"`,
		file(`mode = "4600"`):                              `mode is "4600"`,
		file(`mode = "x"`):                                 `mode is "x"`,
		file(`rotate_bytes = 100`):                         `rotate_bytes is 100; expected at least 65536`,
		file(`rotate_duration = "1ms"`):                    `rotate_duration is 1ms`,
		file(`rotate_max_files = -1`):                      `rotate_max_files is -1`,
		sink("type = \"stdout\"\npath = \"/x\""):           `are those of a file`,
		file(``) + "\n" + file(``):                         `sink "a" is there twice`,
		file(``) + "\nsink \"b\" { type=\"file\" }":        `the file "/data/audit/audit.log" has another sink`,
		"sink \"a b\" { type=\"stdout\" }":                 `expected a name`,
		strings.Repeat(file(``)+"\n", 9):                   `sinks`,
		filter(`type = "Other"` + "\n" + `stages = ["*"]`): `type is "Other"; expected HTTPEvent, the only one`,
		filter(``):                   `expected endpoints, stages or operations, found none`,
		filter(`stages = ["Begin"]`): `stage "Begin"`,
		filter(`endpoints = [""]`):   `an entry has 0 bytes`,
	} {
		c, err := decode(t, text)
		must(t, err)
		err = c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
