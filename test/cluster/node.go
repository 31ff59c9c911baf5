package cluster

type Node struct{}

func (n *Node) Kill() {}
