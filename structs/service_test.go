package structs

import (
	"strings"
	"testing"
)

// A text that is cut does not cost the report its services.
func TestBoundedReport_KeepsServices(t *testing.T) {
	u := &AllocClientUpdate{
		ClientDescription: strings.Repeat("x", 2*MaxText),
		Services:          []*ServiceInstance{{ID: "i"}},
	}
	if c := u.Bounded(); c == u || len(c.Services) != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestServiceInstance_EmptyAndMissingTagsAreEqual(t *testing.T) {
	base := func() *ServiceInstance { return &ServiceInstance{ID: "i", Tags: []string{"a"}} }
	if !(&ServiceInstance{Tags: []string{}, Meta: map[string]string{}}).SameAs(&ServiceInstance{}) {
		t.Error("empty tags or meta differ from missing ones")
	}
	var none *ServiceInstance
	if none.SameAs(base()) || base().SameAs(none) || !none.SameAs(none) {
		t.Error("a missing instance is equal to another")
	}
	for name, edit := range map[string]func(*ServiceInstance){
		"ID":          func(i *ServiceInstance) { i.ID = "x" },
		"ServiceName": func(i *ServiceInstance) { i.ServiceName = "x" },
		"Tags":        func(i *ServiceInstance) { i.Tags = []string{"x"} },
		"Meta":        func(i *ServiceInstance) { i.Meta = map[string]string{"x": ""} },
		"Address":     func(i *ServiceInstance) { i.Address = "x" },
		"Port":        func(i *ServiceInstance) { i.Port = 1 },
		"Status":      func(i *ServiceInstance) { i.Status = "x" },
		"Indexes":     func(i *ServiceInstance) { i.ModifyIndex = 7 },
	} {
		other := base()
		edit(other)
		if base().SameAs(other) != (name == "Indexes") {
			t.Errorf("with another %s they are equal: %v", name, base().SameAs(other))
		}
	}
}
