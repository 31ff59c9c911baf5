package refdocs

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"berth/agent"
	"berth/internal/conf"
)

// blockText explains one block of the configuration of an agent, such as client.drivers.exec.
type blockText struct {
	Block    string // "" of the outermost settings
	Intro    string // a sentence, or ""
	Settings []settingText
}

// settingText explains one setting of a block.
type settingText struct {
	Name    string
	Default string // "" where the value in the code says it
	Text    string
}

// settingsIntro is the head of docs/reference/settings.md.
const settingsIntro = `# Settings of the agent

This page has each block of the configuration of an agent with its settings and their defaults. A block in a
block has the names of both: client.artifact is ` + "`client { artifact { } }`" + `. A setting that is marked
*live* changes at a reload; the others need a restart of the agent.
[Configure the agent](../operations/configure.md) says how to use the files, and how to reload them.
`

// optionsNote explains the keys of client.options.
const optionsNote = "\n| key of `options` | default | |\n|---|---|---|\n" +
	"| `user.denylist` | | users that no task may run as, by name or number: `\"root,admin\"` |\n" +
	"| `driver.allowlist` | all | the only task drivers of the node: `\"exec\"` |\n" +
	"| `driver.denylist` | none | task drivers that the node does not have, even if the other list has them |\n"

// settingsPage writes the reference of settings.
func settingsPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(settingsIntro)
	defaults := configured(agent.DefaultConfig())
	for _, block := range allSettingTexts() {
		fmt.Fprintf(&b, "\n## %s\n\n", cmp.Or(block.Block, "Outermost"))
		if block.Intro != "" {
			fmt.Fprintf(&b, "%s\n\n", block.Intro)
		}
		b.WriteString("| setting | default | |\n|---|---|---|\n")
		for _, s := range block.Settings {
			name := strings.TrimPrefix(block.Block+"."+s.Name, ".")
			value, exists := defaults[name]
			if !exists {
				t.Errorf("%s is explained, but is no setting", name)
			}
			delete(defaults, name)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, cmp.Or(s.Default, value), s.Text)
		}
		if block.Block == "client" {
			b.WriteString(optionsNote)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		t.Errorf("setting_texts_test.go does not explain %s", name)
	}
	return b.String()
}

// configured returns the values of all settings of a configuration by their names, such as
// client.drivers.exec.seccomp.
func configured(c agent.Config) map[string]string {
	values := map[string]string{}
	addValues(values, "", reflect.ValueOf(c))
	return values
}

func addValues(values map[string]string, block string, v reflect.Value) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
			continue
		}
		v = reflect.New(v.Type().Elem()).Elem() // a block that may be repeated
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, kind, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		if name == "" {
			continue
		}
		name = strings.TrimPrefix(block+"."+name, ".")
		switch kind {
		case "label":
		case "block":
			addValues(values, name, v.FieldByIndex(f.Index))
		default:
			values[name] = defaultText(v.FieldByIndex(f.Index))
		}
	}
}

// defaultText formats the value of a setting for a table.
func defaultText(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case bool:
		return fmt.Sprint(value)
	case time.Duration:
		return shortDuration(value)
	case conf.ByteSize:
		return strings.ReplaceAll(humanize.Bytes(uint64(value)), " ", "")
	case []string:
		return codes(value)
	case encoding.TextMarshaler, fmt.Stringer: // a secret
		return ""
	}
	if v.IsZero() || v.Kind() == reflect.Map {
		return ""
	}
	return fmt.Sprint(v.Interface())
}

// shortDuration formats 1h0m0s as 1h.
func shortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// codes formats a list for a table.
func codes(list []string) string {
	var all []string
	for _, s := range list {
		all = append(all, "`"+s+"`")
	}
	return strings.Join(all, ", ")
}
