package structs

import "strconv"

// AttrNodeLevel is the attribute in which a node agent tells its level: see package level.
const AttrNodeLevel = "berth.level"

// Level returns the level of the node's agent, 0 if it tells none.
func (n *Node) Level() int {
	of, err := strconv.Atoi(n.Attributes[AttrNodeLevel])
	if err != nil || of < 0 {
		return 0
	}
	return of
}
