package structs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/codec"
)

func TestJSON_Times(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	info := CSIInfo{
		PluginID:   "p",
		Healthy:    true,
		UpdateTime: at.UnixNano(),
		NodeInfo: &CSINodeInfo{
			ID:         "n",
			MaxVolumes: 3,
		},
	}
	for _, v := range []any{
		&Evaluation{
			ID:         "e",
			WaitUntil:  at.UnixNano(),
			CreateTime: 7,
			Indexes: Indexes{
				CreateIndex: 3,
				ModifyIndex: 4,
			},
		},
		&Evaluation{ID: "never waits"},
		&Evaluation{ID: "batch", TriggeredBy: TriggerRollingUpdate, WaitUntil: at.UnixNano()},
		&info,
		&CSIInfo{},
		&CSIPluginInstance{
			Kind:    CSIKindNode,
			NodeID:  "n1",
			CSIInfo: info,
			Indexes: Indexes{
				CreateIndex: 1,
				ModifyIndex: 2,
			},
		},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(b, back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, v) {
			t.Errorf("%s came back as %+v, was %+v", b, back, v)
		}
		packed, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		back = reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := codec.Decode(packed, back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("in msgpack %+v came back as %+v, %v", v, back, err)
		}
	}
	b, _ := json.Marshal(&info)
	if want := `"UpdateTime":"2026-01-02T03:04:05.000000006Z"`; !strings.Contains(string(b), want) {
		t.Errorf("%s lacks %s", b, want)
	}
}
