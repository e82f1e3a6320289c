"""The paper's last question: do Regularized Axons and PID carry over to deep and full machines?

steering     pure PID on bars and stripes, and how strongly deep layers may pull
moments      PID's states and moments beside exact ones, on machines that can be enumerated
negatives    what stands in for the model average where PID fails, judged by exact log p
worth        what a unit is worth in a second layer, with exact gradients
depth        what depth, couplings within layers and the positive phase are worth, on small images
likelihood   restricted, deep and full machines of as many parameters on MNIST
ghosts       states that outgrow the data unseen, and chains born at patterns
glass        when a machine becomes glassy as it is trained
minima       what a pattern is: minima of trained machines, and which images fall into each

What they share: shapes, the machines by name; mixing, how fast chains forget.
"""
