package capacity

import "berth/structs"

// amounts are the resources of which an allocation has a part of its node. A Resources has more, and is more
// than twice as large.
type amounts struct{ cpu, memoryMB, diskMB int }

// amountsOf returns the part of resources that the sums of a node have: no cores, no devices and no bound of
// memory above its reserve.
func amountsOf(r *structs.Resources) amounts {
	return amounts{r.CPU, r.MemoryMB, r.DiskMB}
}

func (m amounts) resources() structs.Resources {
	return structs.Resources{CPU: m.cpu, MemoryMB: m.memoryMB, DiskMB: m.diskMB}
}

func (m amounts) plus(o amounts) amounts {
	return amounts{m.cpu + o.cpu, m.memoryMB + o.memoryMB, m.diskMB + o.diskMB}
}

func (m amounts) minus(o amounts) amounts {
	return amounts{m.cpu - o.cpu, m.memoryMB - o.memoryMB, m.diskMB - o.diskMB}
}

func (m amounts) negative() amounts {
	return amounts{-m.cpu, -m.memoryMB, -m.diskMB}
}

// count adds other amounts in place. A sum that is too large for an int is the largest there is.
func (m *amounts) count(o amounts) {
	m.cpu = structs.AddSaturated(m.cpu, o.cpu)
	m.memoryMB = structs.AddSaturated(m.memoryMB, o.memoryMB)
	m.diskMB = structs.AddSaturated(m.diskMB, o.diskMB)
}

// most returns the larger amount of each dimension.
func (m amounts) most(o amounts) amounts {
	return amounts{max(m.cpu, o.cpu), max(m.memoryMB, o.memoryMB), max(m.diskMB, o.diskMB)}
}
