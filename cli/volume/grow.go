package volume

import (
	"fmt"

	"berth/api/show"
	"berth/structs"
)

// growRule describes when a volume grows by itself, "" if it does not.
func growRule(p *structs.CSIGrow) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("at %d%% by %d%%, up to %s", p.At, p.By, show.Size(p.Max))
}

// lastGrowth describes the last growth of a volume by itself, "" for none.
func lastGrowth(g *structs.CSIGrowth) string {
	if g == nil || g.Time == 0 {
		return ""
	}
	return fmt.Sprintf("%s, from %s to %s",
		show.Age(g.Time), show.Size(g.From), show.Size(g.To))
}
