package config

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/structs"
)

func valid() *Config {
	c := DefaultConfig()
	c.Enabled, c.DataDir = true, "/var/lib/berth"
	return c
}

func TestTheDefaultIsValid(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Config{}).Validate(); err != nil {
		t.Errorf("a client that is off: %v", err)
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	c := valid()
	c.DataDir, c.Datacenter, c.NodePool, c.NodeID = "rel", "", "all", "a/b"
	c.Servers = []string{"one:1", "two"}
	c.HeartbeatGrace, c.GCMaxAllocs = -time.Second, -1
	c.Reserved.CPU, c.MemoryTotalMB = -5, structs.MaxMemoryMB+1
	c.Options = map[string]string{"nope": "1", OptionUserDenylist: "root"}
	c.Drivers.RawExec.CgroupParent = "/abs"
	err := c.Validate()
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	for _, want := range []string{"data_dir:", "datacenter:", "client.node_pool:", "client.node_id:", `"two" is not host:port`,
		"client.heartbeat_grace:", "client.gc_max_allocs:", "client.reserved.cpu:", "client.drivers:",
		"client.memory_total_mb: 1073741825 is more than",
		`no option "nope"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among the faults:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "one:1") {
		t.Errorf("a good setting is among the faults:\n%v", err)
	}
}

func full() *Config {
	c := valid()
	c.Servers = []string{"a:1"}
	c.Meta = map[string]string{"k": "v"}
	c.Drivers.Executor = []string{"berth", "executor"}
	return c
}

func TestCopySharesNothing(t *testing.T) {
	c := full()
	d := c.Copy()
	if !reflect.DeepEqual(c, d) {
		t.Fatalf("the copy differs:\n%+v\n%+v", c, d)
	}
	shared(t, "Config", reflect.ValueOf(c), reflect.ValueOf(d))
}

// shared finds memory that two values of plain data both refer to.
func shared(t *testing.T, path string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if !a.IsNil() && a.Pointer() == b.Pointer() && (a.Kind() == reflect.Pointer || a.Len() > 0) {
			t.Errorf("%s is shared", path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			shared(t, path, a.Elem(), b.Elem())
		}
	case reflect.Struct:
		for i := range a.NumField() {
			shared(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
}

func TestNilStaysNilAndEmptyEmpty(t *testing.T) {
	c := &Config{Meta: map[string]string{}, Servers: []string{}}
	d := c.Copy()
	if d.Meta == nil || d.Servers == nil {
		t.Error("an empty map or slice became nil")
	}
	if d.Options != nil || d.Reserved != nil || d.Drivers != nil {
		t.Error("a nil map or pointer became something")
	}
}

func TestHolderGivesOutWhatNeverChanges(t *testing.T) {
	mine := full()
	h := NewHolder(mine)
	mine.Meta["k"] = "changed by the owner of the original"
	before := h.Get()
	after := h.Update(func(c *Config) {
		c.Meta["k"] = "new"
		c.Reserved.CPU = 7
		c.Servers = append(c.Servers, "b:1")
	})
	if before.Meta["k"] != "v" || before.Reserved.CPU != 0 || len(before.Servers) != 1 {
		t.Errorf("what was handed out has changed: %+v", before)
	}
	if after != h.Get() || after.Meta["k"] != "new" || after.Reserved.CPU != 7 {
		t.Errorf("the update is lost: %+v", after)
	}
	if one, other := h.Get(), h.Get(); one != other {
		t.Error("two readers do not share one copy")
	}
}

func TestNoUpdateIsLost(t *testing.T) {
	h := NewHolder(full())
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { h.Update(func(c *Config) { c.GCMaxAllocs++ }) })
		wg.Go(func() { _ = h.Get().Meta["k"] })
	}
	wg.Wait()
	if got, want := h.Get().GCMaxAllocs, full().GCMaxAllocs+50; got != want {
		t.Errorf("%d, want %d", got, want)
	}
}
