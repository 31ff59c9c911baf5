package events

import (
	"encoding/json"
	"strconv"

	"berth/internal/fastjson"
	"berth/structs"
	"berth/structs/event"
)

// Line has the events of one log entry. Index is 0 in the line of an idle stream. The events of one entry may
// come in several lines.
type Line struct {
	Index  uint64
	Events []*Event
}

// Event is an event as the API shows it. Payload has the row under the name of its kind. Deleted is in it if
// the row is gone.
type Event struct {
	Header
	Payload json.RawMessage
}

// Header is an event without its payload.
type Header struct {
	Topic      event.Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Reason     string `json:",omitempty"`
}

// appendLine appends the line of the events of one log entry. A payload is JSON already: to encode it again
// for each reader would take most of the time.
func appendLine(b []byte, events []*event.Event, headers *fastjson.Encoder) ([]byte, error) {
	b = append(b, `{"Index":`...)
	b = strconv.AppendUint(b, events[0].Index, 10)
	b = append(b, `,"Events":`...)
	before := byte('[')
	for _, e := range events {
		header := headerOf(e)
		var err error
		b, err = headers.Append(append(b, before), &header)
		if err != nil {
			return nil, structs.Internalf("encoding an event: %w", err)
		}
		b = append(b[:len(b)-1], `,"Payload":`...)
		b = append(b, e.Payload...)
		b = append(b, '}')
		before = ','
	}
	return append(b, "]}\n"...), nil
}

func headerOf(e *event.Event) Header {
	keys := e.FilterKeys
	if keys == nil {
		keys = []string{} // clients of the dialect expect a list
	}
	return Header{
		Topic:      e.Topic,
		Type:       e.Type,
		Key:        e.Key,
		Namespace:  e.Namespace,
		FilterKeys: keys,
		Index:      e.Index,
		Reason:     e.Reason,
	}
}
