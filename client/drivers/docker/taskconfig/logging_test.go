package taskconfig

import (
	"reflect"
	"testing"
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
