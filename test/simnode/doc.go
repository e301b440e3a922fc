// Package simnode plays the kubelets of a test cluster: nodes that exist only as objects, and pods whose containers
// "run" by status writes in the order and with the words of a kubelet.
//
// What is simulated: Node objects with capacity, conditions, boot and machine IDs, optional heartbeats; init containers
// one after another, each visible as running before the next starts; exit codes, logs in the termination message, image
// pull errors, activeDeadlineSeconds, restart policies, deletion with grace, reboots and machines that never come back;
// pods that the kubelet's admission refuses, evictions by the kubelet, and kubelets that fall silent.
//
// What is not: sidecars (init containers that restart always run like other init containers), probes, volumes, `kubectl
// logs` and `exec`, resource pressure, static pods. A pod that no Job owns never ends by itself.
//
//	fleet := simnode.New(cluster.Config(), simnode.Options{Outcome: func(pod *corev1.Pod, c string) simnode.Result {
//		return simnode.Result{Exit: 3, Log: "no space left on device"}
//	}})
//	node, err := fleet.AddNode(ctx, "a1", map[string]string{"pool": "a"}, simnode.NodeOptions{})
//	go fleet.Run(ctx)
//
// The state of a pod is what the API server holds; a Fleet remembers only when containers began and how they will end.
// It asks for no more than a kubelet's rights, and it identifies itself by the user agent "fleetwright-simnode".
package simnode
