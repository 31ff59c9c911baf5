package conf

import (
	"testing"

	"berth/structs"
)

func BenchmarkDecode(b *testing.B) {
	src := []byte(`{"Job": {"ID": "web", "Name": "web", "Type": "service", "Datacenters": ["*"], "TaskGroups": [{
 "Name": "group", "Count": 10, "EphemeralDisk": {"SizeMB": 101}, "Volumes": null, "Tasks": [{"Name": "server",
 "Driver": "exec", "Config": {"command": "/bin/true"}, "Resources": {"CPU": 450, "MemoryMB": 192}}]}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		var body struct{ Job *structs.Job }
		if err := DecodeJSON(src, &body, nil); err != nil {
			b.Fatal(err)
		}
	}
}
