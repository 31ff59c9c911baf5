package rejects

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"berth/structs"
)

// TestCount_ChangesNoOther: neither its clones nor the metrics that were made of it.
func TestCount_ChangesNoOther(t *testing.T) {
	node := &structs.Node{ID: "n1", Datacenter: "dc1", NodeClass: "small"}
	short := Rejection{Filter: FilterResources, Dimension: "cpu", Reason: "cpu exhausted", Keys: []string{"k"}}
	count := func(c *Count) {
		c.AddRejection(node, short)
		c.AddRejection(node, Rejection{Filter: FilterDriver, Reason: "no driver"})
		c.CountNode(node, "")
	}
	shown := func(c *Count) string {
		anew := &Count{rejections: c.rejections}
		if !reflect.DeepEqual(c.list(), anew.list()) {
			t.Error("the list of rejections is out of date")
		}
		m, err := json.Marshal(c.ToMetric(structs.MaxReasons))
		return fmt.Sprintf("%s %v %d %v", m, c.rejections, len(c.Keys), err)
	}
	for name, change := range map[string]func(c *Count){
		"count":   count,
		"blocked": func(c *Count) { c.CountBlocked(Rejection{Reason: "no volume"}) },
		"merge": func(c *Count) {
			other := NewCount()
			count(other)
			c.Merge(NewCount(), other)
		},
	} {
		c := NewCount()
		count(c)
		first, clone := c.ToMetric(structs.MaxReasons), c.Clone()
		metric, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		want := shown(clone)
		change(c)
		later := shown(c)
		change(clone.Clone())
		if got := shown(clone); got != want || later == want {
			t.Errorf("%s: the clone was %s\nand is %s\nbeside %s", name, want, got, later)
		}
		if got, _ := json.Marshal(first); string(got) != string(metric) {
			t.Errorf("%s: the metric was %s\nand is %s", name, metric, got)
		}
	}
}

// TestProcess_APlanDoesNotRepeatTheTextsOfItsJob: each group without a node has its own reason.
