package debug

import (
	"encoding/json"
	"testing"
)

func TestKeep_DropsAllThatTheListDoesNotName(t *testing.T) {
	for _, c := range []struct{ name, fields, value, want string }{
		{"fields", "A B.C", `{"A":1,"B":{"C":true,"D":"x"},"E":"x"}`, `{"A":1,"B":{"C":true}}`},
		{"a group of names", "B.(C,D)", `{"B":{"C":1,"D":2,"E":3}}`, `{"B":{"C":1,"D":2}}`},
		{"elements of lists", "A.B", `{"A":[{"B":1,"C":"x"},{"C":"x"}]}`, `{"A":[{"B":1},{}]}`},
		{"each key", "A.*.B", `{"A":{"k1":{"B":1,"C":"x"},"k2":{"B":2}}}`, `{"A":{"k1":{"B":1},"k2":{"B":2}}}`},
		{"an object in place of a value", "A", `{"A":{"secret":"x"}}`, `{}`},
		{"an object in a list of values", "A", `{"A":["y",{"secret":"x"}]}`, `{}`},
		{"a text in place of an object", "A.B", `{"A":"x"}`, `{"A":null}`},
		{"a list of values", "A", `{"A":["y",1]}`, `{"A":["y",1]}`},
		{"a text in place of all", "A", `"x"`, `null`},
		{"a list of texts in place of all", "A", `["x"]`, `[null]`},
	} {
		var value any
		if err := json.Unmarshal([]byte(c.value), &value); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(parseFields(c.fields).Keep(value))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}
