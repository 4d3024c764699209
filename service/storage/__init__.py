"""What is durable: takes states, gives checkpoint and snapshot files and reads them back. The
learner and the HTTP API import it; a new transport is one class with the methods of `stores.py`.
"""
