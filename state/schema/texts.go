package schema

// NodeIsDown is the description of an instance whose node went down, and of an allocation lost with its node.
// It is for people: DownWithNode and StopNodeDown say the same to code.
const NodeIsDown = "node is down"
