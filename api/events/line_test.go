package events

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth/internal/fastjson"
	"berth/structs/event"
)

// A header has the bytes that encoding/json writes, also of texts with special characters.
func TestAppendLine_WritesHeadersAsTheLibraryDoes(t *testing.T) {
	odd := "a <b> & \"c\" \\ \u2028 \x01 \xff"
	var list []*event.Event
	for _, keys := range [][]string{nil, {}, {odd, "two"}} {
		list = append(list, &event.Event{
			Topic:      event.Job,
			Type:       odd,
			Key:        odd,
			Namespace:  "default",
			FilterKeys: keys,
			Index:      1<<64 - 1,
			Reason:     odd[:len(keys)],
			Payload:    []byte(`{"Job":{}}`),
		})
	}
	want := `{"Index":18446744073709551615,"Events":[`
	for n, e := range list {
		header, err := json.Marshal(headerOf(e))
		if err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf(`%s%s,"Payload":{"Job":{}}}`, ",,"[:min(n, 1)], header[:len(header)-1])
	}
	want += "]}\n"

	var headers fastjson.Encoder
	got, err := appendLine([]byte("before\n"), list, &headers)
	if err != nil || string(got) != "before\n"+want || strings.Count(want, `"FilterKeys":[]`) != 2 {
		t.Errorf("got\n%s\nwant\n%s: %v", got, want, err)
	}
}

// BenchmarkLine is the line of one event, whose payload is encoded already.
func BenchmarkLine(b *testing.B) {
	const id = "53b92b20-9e1f-4c35-8a0e-2f3d1c7b5e66"
	list := []*event.Event{{
		Topic:      event.Instance,
		Type:       "InstanceUpdated",
		Key:        "ebs0/node/" + id,
		FilterKeys: []string{"ebs0", id, id},
		Index:      123_456,
		Reason:     "healthy",
		Payload:    make([]byte, 700),
	}}
	var headers fastjson.Encoder
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		line, err = appendLine(line[:0], list, &headers)
		if err != nil {
			b.Fatal(err)
		}
	}
}
