package taskconfig

import (
	"reflect"
	"strings"
	"testing"

	"berth/structs"
)

func TestDecode_ReadsHowOutputIsKept(t *testing.T) {
	sized := map[string]string{"max-size": "1m", "max-file": "3"}
	for text, want := range map[string]*Logging{
		"": nil,
		"logging {\n type = \"local\"\n config {\n max-size = \"1m\"\n max-file = 3\n}\n}": {LogLocal, sized},
		"logging {\n driver = \"none\"\n}":                                                 {LogNone, nil},
		"logging {\n type = \"local\"\n driver = \"local\"\n}":                             {LogLocal, nil},
		"logging = { config = { max-size = \"1m\", max-file = \"3\" } }":                   {LogJSON, sized},
	} {
		got, err := decode(t, "image = \"a\"\n"+text)
		if err != nil || !reflect.DeepEqual(got.Logging, want) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got.Logging, err, want)
		}
	}
}

// The JSON of a job has blocks as lists of one map.
func TestDecode_ReadsHowOutputIsKeptFromJSON(t *testing.T) {
	got, err := Decode(map[string]any{
		"image": "a",
		"logging": []any{map[string]any{
			"type":   "json-file",
			"config": []any{map[string]any{"max-size": "1m"}, map[string]any{"max-file": float64(3)}},
		}},
	})
	want := &Logging{LogJSON, map[string]string{"max-size": "1m", "max-file": "3"}}
	if err != nil || !reflect.DeepEqual(got.Logging, want) {
		t.Errorf("got %+v, %v, want %+v", got.Logging, err, want)
	}
}

// All jobs share the disk and the memory of the daemon.
func TestDecode_BoundsTheOutputThatTheDaemonKeeps(t *testing.T) {
	for options, want := range map[string]string{
		`max-size = "512m"`:                   "",
		`max-size = "512M"`:                   "",
		`max-size = "1g", max-file = 1`:       "",
		`max-size = 10485760, max-file = 100`: "",
		`max-file = 64`:                       "",
		`cache-max-size = "100m"`:             "",
		`max-buffer-size = "4m"`:              "",
		`max-size = "1000g"`:                  `config.max-size: "1000g": the daemon would keep 2 files`,
		`max-size = "513m"`:                   "expected at most 1GiB in all",
		`max-size = "1025mb", max-file = 1`:   "expected at most 1GiB in all",
		`max-size = "11m", max-file = 100`:    "would keep 100 files of that size (max-file)",
		`max-file = 65`:                       `config.max-size: "16m": the daemon would keep 65 files`,
		`max-size = "1k", max-file = 101`:     `config.max-file: "101": expected a number from 1 to 100`,
		`max-file = 0`:                        `config.max-file: "0": expected a number`,
		`max-file = -1`:                       `config.max-file: "-1": expected a number`,
		`max-size = -1`:                       `config.max-size: "-1": expected a size`,
		`max-size = "0"`:                      `config.max-size: "0": expected a size`,
		`max-size = "unlimited"`:              `config.max-size: "unlimited": expected a size`,
		`max-size = ""`:                       `config.max-size: "": expected a size`,
		`max-size = "99999999999999p"`:        "config.max-size",
		`cache-max-size = "1g"`:               "would keep 5 files of that size (cache-max-file)",
		`cache-max-file = 99`:                 `config.cache-max-size: "20m"`,
		`max-buffer-size = "1g"`:              `config.max-buffer-size: "1g": expected a size up to 16MiB`,
		`fluentd-buffer-limit = "1g"`:         "config.fluentd-buffer-limit",
	} {
		for _, driver := range []string{LogJSON, LogLocal, "fluentd", ""} {
			text := "image = \"a\"\nlogging {\n type = \"" + driver + "\"\n config = { " + options + " }\n}"
			_, err := decode(t, text)
			if want == "" && err != nil {
				t.Errorf("%s: %s: got %v", driver, options, err)
			}
			invalid := structs.IsKind(err, structs.KindInvalid)
			if want != "" && (!invalid || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %s: got %v, want %q", driver, options, err, want)
			}
		}
	}
}

// A reference has its value at the start of the task, when the node checks it.
func TestCheck_LeavesSizesOfOutputWithReferencesToTheNode(t *testing.T) {
	config := func(options map[string]any) map[string]any {
		return map[string]any{"image": "a", "logging": map[string]any{"config": options}}
	}
	for _, name := range []string{"max-size", "max-file", "max-buffer-size"} {
		_, err := Check(config(map[string]any{name: "${NOMAD_META_x}"}))
		if err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		_, err = Decode(config(map[string]any{name: "1000g"}))
		if err == nil {
			t.Errorf("%s has no bound", name)
		}
	}
}
