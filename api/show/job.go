package show

import (
	"fmt"

	"berth/structs"
)

// Deployments has the columns of deployments.
var Deployments = Noun[*structs.Deployment]{
	Titles: "ID|Job|Version|Status|Description|Healthy|Modified",
	Row: func(d *structs.Deployment, id func(string) string) []string {
		healthy, wanted := 0, 0
		for _, g := range d.TaskGroups {
			healthy += g.HealthyAllocs
			wanted += g.DesiredTotal
		}
		return []string{
			id(d.ID),
			d.JobID,
			fmt.Sprint(d.JobVersion),
			d.Status,
			d.StatusDescription,
			Count(healthy, wanted),
			Age(d.ModifyTime),
		}
	},
}
