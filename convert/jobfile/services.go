package jobfile

import (
	"cmp"
	"reflect"
	"strconv"

	"berth/structs"
)

func (w *jobWriter) services(list []*structs.Service) {
	for _, s := range list {
		w.block("service", func() {
			w.fill(blockOf("service"), s, "check", "connect")
			for _, c := range s.Checks {
				w.block("check", func() { w.check(c, s) })
			}
			if s.Connect != nil {
				w.block("connect", func() { w.connect(s.Connect) })
			}
		})
	}
}

func (w *jobWriter) check(c *structs.ServiceCheck, s *structs.Service) {
	usual := structs.ServiceCheck{
		Name:     "service: " + strconv.Quote(s.Name) + " check",
		Protocol: "http",
		Method:   "GET",
		OnUpdate: cmp.Or(s.OnUpdate, structs.OnUpdateRequireHealthy),
	}
	w.fillBut(blockOf("service", "check"), reflect.ValueOf(*c), reflect.ValueOf(usual), nil)
}

func (w *jobWriter) connect(c *structs.Connect) {
	w.fill(blockOf("service", "connect"), c, "sidecar_task")
	if t := c.SidecarTask; t != nil {
		w.block("sidecar_task", func() {
			w.fill(blockOf("service", "connect", "sidecar_task"), t, "resources")
			w.resources(t.Resources, 0, 0)
		})
	}
}
